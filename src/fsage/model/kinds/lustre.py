"""Kind `lustre`: a directory on a client's mount."""

from __future__ import annotations

from fsage.base import GIB, Refusal
from fsage.model.claim import Claim
from fsage.model.declaration import declared
from fsage.model.kinds import Kind
from fsage.model.kinds.directory import Directory
from fsage.model.target import LustreSpec, Spec, usual

NEEDED = {
    "fsname": "a name as in MGS:/NAME is wanted",
    "mgs": "NIDs as in the mount are wanted (10.0.0.1@tcp)",
}


class Lustre(Kind):
    """A directory on Lustre, emptied by deleting."""

    kind = "lustre"
    takes_layouts = True
    has_osts = True

    @classmethod
    def complete(cls, spec: dict[str, object]) -> None:
        """The key `lustre`."""
        spec["lustre"] = _complete(spec)

    @classmethod
    def laid_bytes(cls, claim: Claim) -> int | None:
        return claim["lustre"].get("device_bytes")

    @classmethod
    def most_bytes(cls, spec: Spec) -> int | None:
        declared = spec["lustre"]
        assert declared is not None
        capacity = declared["capacity_gib"]
        if isinstance(capacity, (int, float)):
            return int(capacity * GIB)
        return None

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        declared = spec["lustre"]
        assert declared is not None
        capacity = declared["capacity_gib"]
        if capacity == "all":
            much = "all"
        else:
            much = f"at most {declared['free_percent']:g}% of what is free"
        if capacity and capacity != "all":
            much = f"at most {capacity:g} GiB, and {much.removeprefix('at most ')},"
        return (
            f"files that fsage made in {spec['directory']}, which fill {much} of {_name(spec)}; "
            "nothing else there is touched, and no OST is formatted"
        )

    @classmethod
    def disturbs(cls, spec: Spec, other: Spec) -> str | None:
        if _name(spec) != _name(other):
            return None
        if not (_whole(spec) or _whole(other)):
            return Directory.disturbs(spec, other)
        return f"is on the same file system as {spec['name']} ({_name(spec)})"


def _whole(spec: Spec) -> bool:
    """Whether it has the file system for itself."""
    assert spec["lustre"] is not None
    return spec["lustre"]["capacity_gib"] == "all"


def _name(spec: Spec) -> str:
    """The file system, as a mount has it."""
    assert spec["lustre"] is not None
    return f"{spec['lustre']['mgs']}:/{spec['lustre']['fsname']}"


def _complete(full: dict[str, object]) -> dict[str, object]:
    if not isinstance(full["lustre"], dict) or not full["directory"]:
        raise Refusal(
            "fsage_target of kind lustre needs lustre (fsname, mgs) and directory, a folder of its own "
            "on a client's mount"
        )
    lustre = {**usual(LustreSpec), **declared(LustreSpec, full["lustre"], "fsage_target.lustre")}
    for key, why in NEEDED.items():
        if lustre[key] is None:
            raise Refusal(f"fsage_target.lustre.{key} is missing: {why}")
    if lustre["osts"] and (lustre["pool"] or lustre["stripe_count"] != len(lustre["osts"])):
        raise Refusal(
            f"fsage_target.lustre.osts is {lustre['osts']}: each file has a stripe on each, so stripe_count "
            f"{len(lustre['osts'])} and no pool are wanted beside it"
        )
    if lustre["capacity_gib"] not in (None, "all") and lustre["capacity_gib"] <= 0:
        raise Refusal(f"fsage_target.lustre.capacity_gib is {lustre['capacity_gib']!r}: a positive number is wanted")
    if lustre["capacity_gib"] == "all" and lustre["tolerance_mib"] not in (None, 0):
        raise Refusal(
            f"fsage_target.lustre.tolerance_mib is {lustre['tolerance_mib']!r}, and capacity_gib all: the file system "
            "is fsage's alone, so that nobody's writing is tolerated; leave it out"
        )
    return lustre


KIND = Lustre
