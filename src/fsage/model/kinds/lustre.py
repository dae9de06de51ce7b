"""Kind `lustre`: a directory on a client's mount, the only target of that file system."""

from __future__ import annotations

import re

from fsage.model.claim import Claim
from fsage.model.declaration import known_keys, positive
from fsage.model.errors import Refusal
from fsage.model.kinds import Kind
from fsage.model.target import Spec

DEFAULTS: dict[str, object] = {
    "fsname": None,
    "mgs": None,
    "capacity_gib": None,
    "stripe_count": 1,
    "stripe_size_mib": 1,
    "first_ost": -1,
    "oss": [],
    "tolerance_mib": None,
}
OTHERS_MIB = 1024  # the usual tolerance_mib where others use the file system too


class Lustre(Kind):
    """A directory on Lustre, emptied by deleting."""

    kind = "lustre"
    has_osts = True

    @classmethod
    def complete(cls, spec: dict[str, object]) -> None:
        """The key `lustre`."""
        spec["lustre"] = _complete(spec)

    @classmethod
    def laid_bytes(cls, claim: Claim) -> int | None:
        return claim["lustre"].get("device_bytes")

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        declared = spec["lustre"]
        assert declared is not None
        capacity = declared["capacity_gib"]
        much = "all of it" if capacity == "all" else f"{capacity:g} GiB"
        return (
            f"files that fsage made in {spec['directory']}, which fill {much} of {_name(spec)}; "
            "nothing else there is touched, and no OST is formatted"
        )

    @classmethod
    def disturbs(cls, spec: Spec, other: Spec) -> str | None:
        if _name(spec) != _name(other):
            return None
        return f"is on the same file system as {spec['name']} ({_name(spec)})"


def _name(spec: Spec) -> str:
    """The file system, as a mount has it."""
    assert spec["lustre"] is not None
    return f"{spec['lustre']['mgs']}:/{spec['lustre']['fsname']}"


def _complete(full: dict[str, object]) -> dict[str, object]:
    if not isinstance(full["lustre"], dict) or not full["directory"]:
        raise Refusal(
            "fsage_target of kind lustre needs lustre (fsname, mgs, capacity_gib) and directory, a folder of its own "
            "on a client's mount"
        )
    known_keys("fsage_target.lustre", full["lustre"], DEFAULTS)
    lustre = {**DEFAULTS, **full["lustre"]}
    if not isinstance(lustre["fsname"], str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,8}", lustre["fsname"]):
        raise Refusal(f"fsage_target.lustre.fsname is {lustre['fsname']!r}: a name as in MGS:/NAME is wanted")
    if not isinstance(lustre["mgs"], str) or not re.fullmatch(r"[\w.,:@-]+@[\w.,:@-]+", lustre["mgs"]):
        raise Refusal(f"fsage_target.lustre.mgs is {lustre['mgs']!r}: NIDs as in the mount are wanted: 10.0.0.1@tcp")
    if lustre["capacity_gib"] is None:
        raise Refusal(
            "fsage_target.lustre.capacity_gib is missing: say how many GiB fsage may fill, or `all` of a file system "
            "that holds nothing else"
        )
    if lustre["capacity_gib"] != "all":
        positive("fsage_target.lustre.capacity_gib", lustre["capacity_gib"], whole=False)
    positive("fsage_target.lustre.stripe_size_mib", lustre["stripe_size_mib"], whole=True)
    for key in ("stripe_count", "first_ost"):
        if lustre[key] != -1 and (key, lustre[key]) != ("first_ost", 0):
            positive(f"fsage_target.lustre.{key}", lustre[key], whole=True)
    if lustre["tolerance_mib"] is None:
        lustre["tolerance_mib"] = 0 if lustre["capacity_gib"] == "all" else OTHERS_MIB
    elif lustre["capacity_gib"] == "all" and lustre["tolerance_mib"] != 0:
        raise Refusal(
            f"fsage_target.lustre.tolerance_mib is {lustre['tolerance_mib']!r}, and capacity_gib all: the file system "
            "is fsage's alone, so that nobody's writing is tolerated; leave it out"
        )
    elif lustre["tolerance_mib"] != 0:
        positive("fsage_target.lustre.tolerance_mib", lustre["tolerance_mib"], whole=True)
    return lustre


KIND = Lustre
