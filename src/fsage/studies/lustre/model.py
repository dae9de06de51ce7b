"""Kind `lustre`: what is declared of a target on Lustre, and what that says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, TypedDict, cast

from fsage.api.model import (
    ALL_OSTS,
    CLAIMED,
    COUNT,
    GIB,
    LIVE,
    MIB,
    NOT_NEGATIVE,
    Check,
    Claim,
    Json,
    JsonView,
    Key,
    Refusal,
    Spec,
    kinds,
    matching,
    round_size,
)

FSNAME = matching(r"[A-Za-z0-9_-]{1,8}", "a name as in MGS:/NAME")
NIDS = matching(r"[\w.,:@-]+@[\w.,:@-]+", "NIDs as in the mount (10.0.0.1@tcp)")
ANY_OST = Check(lambda number: number >= -1, "the number of an OST, or -1 for any,")
STRIPES = Check(lambda number: number == -1 or number > 0, "a number of OSTs, or -1 for all,")
PERCENT = Check(lambda number: 0 < number <= 100, "a number above 0, at most 100,")
POOL = matching(r"[A-Za-z0-9_.-]{1,15}", "the name of a pool, without fsname,")
OSTS = Check(
    lambda osts: bool(osts) and min(osts) >= 0 and len(set(osts)) == len(osts), "a list of OSTs, each once ([0, 3]),"
)


class Striping(TypedDict):
    """How files of a directory are striped."""

    stripe_count: Annotated[int, STRIPES, Key(1, CLAIMED)]  # -1: all OSTs
    stripe_size_mib: Annotated[int, COUNT, Key(1, CLAIMED)]
    first_ost: Annotated[int, ANY_OST, Key(-1, CLAIMED)]  # -1: any


class LustreSpec(Striping):
    """What a target of kind lustre is on; sizes in GiB and MiB as named."""

    fsname: Annotated[str, FSNAME, Key(None, CLAIMED)]
    mgs: Annotated[str, NIDS, Key(None, CLAIMED)]
    # None: as much as quotas and free_percent leave, which limit a number too.
    capacity_gib: Annotated[float | Literal["all"] | None, Key(None, CLAIMED)]
    free_percent: Annotated[float, PERCENT, Key(5, CLAIMED)]  # of what is free on the OSTs that may be used
    pool: Annotated[str | None, POOL, Key(None, CLAIMED)]
    osts: Annotated[list[int] | None, OSTS, Key(None, CLAIMED)]  # each file has a stripe on each
    mdt_index: Annotated[int | None, NOT_NEGATIVE, Key(None, CLAIMED)]
    mdt_count: Annotated[int | None, COUNT, Key(None, CLAIMED)]  # of each directory
    oss: Annotated[list[str], Key([], LIVE)]
    tolerance_mib: Annotated[
        int | None, NOT_NEGATIVE, Key(None, LIVE)
    ]  # by which others may change an OST's used space


NEEDED = {
    "fsname": "a name as in MGS:/NAME is wanted",
    "mgs": "NIDs as in the mount are wanted (10.0.0.1@tcp)",
}


class Lustre(kinds.Kind):
    """A directory on Lustre, emptied by deleting."""

    kind = "lustre"
    title = "a directory of a Lustre"
    block = LustreSpec
    example: ClassVar[Json] = {
        "directory": "/lustre/fsage",
        "lustre": {"fsname": "any", "mgs": "any@tcp", "capacity_gib": "all"},
    }
    takes_layouts = True
    has_osts = True

    @classmethod
    def complete(cls, spec: Json) -> None:
        if not spec["directory"]:
            raise Refusal("fsage_target.directory is missing: a folder of its own on a client's mount is wanted")
        lustre = spec["lustre"]
        for key, why in NEEDED.items():
            if lustre[key] is None:
                raise Refusal(f"fsage_target.lustre.{key} is missing: {why}")
        if lustre["osts"] and (lustre["pool"] or lustre["stripe_count"] != len(lustre["osts"])):
            raise Refusal(
                f"fsage_target.lustre.osts is {lustre['osts']}: each file has a stripe on each, so stripe_count "
                f"{len(lustre['osts'])} and no pool are wanted beside it"
            )
        if lustre["capacity_gib"] not in (None, "all") and lustre["capacity_gib"] <= 0:
            raise Refusal(
                f"fsage_target.lustre.capacity_gib is {lustre['capacity_gib']!r}: a positive number is wanted"
            )
        if lustre["capacity_gib"] == "all" and lustre["tolerance_mib"] not in (None, 0):
            raise Refusal(
                f"fsage_target.lustre.tolerance_mib is {lustre['tolerance_mib']!r}, and capacity_gib all: the file "
                "system is fsage's alone, so that nobody's writing is tolerated; leave it out"
            )

    @classmethod
    def laid_bytes(cls, claim: Claim) -> int | None:
        return claim["lustre"].get("device_bytes")

    @classmethod
    def most_bytes(cls, spec: Spec) -> int | None:
        capacity = lustre_of(spec)["capacity_gib"]
        if isinstance(capacity, (int, float)):
            return int(capacity * GIB)
        return None

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        lustre = lustre_of(spec)
        capacity = lustre["capacity_gib"]
        if capacity == "all":
            much = "all"
        else:
            much = f"at most {lustre['free_percent']:g}% of what is free"
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
            return kinds.Directory.disturbs(spec, other)
        return f"is on the same file system as {spec['name']} ({_name(spec)})"

    @classmethod
    def fsname(cls, spec: Spec) -> str | None:
        return lustre_of(spec)["fsname"]

    @classmethod
    def named_hosts(cls, spec: Spec) -> dict[str, list[str]]:
        return {"oss": lustre_of(spec)["oss"]}

    @classmethod
    def told_by(cls, spec: Spec) -> str | None:
        lustre = lustre_of(spec)
        return f"directory {spec['directory']} of Lustre file system {lustre['fsname']} of {lustre['mgs']}"

    @classmethod
    def anonymous(cls, spec: Spec) -> Json:
        return {"lustre": {**lustre_of(spec), "fsname": "lustre", "mgs": "mgs@tcp", "oss": []}}

    @classmethod
    def width(cls, claim: JsonView) -> int:
        return len(claim["lustre"].get("usable") or claim["lustre"]["osts"])

    @classmethod
    def unlimited(cls, spec: Spec) -> str:
        lustre = lustre_of(spec)
        if lustre["capacity_gib"] is None:
            return f"at most {lustre['free_percent']:g}% of what is free, and what quotas leave (lustre.free_percent)"
        return "all that is free: lustre.capacity_gib is `all`"

    @classmethod
    def on_each(cls, spec: Spec, claims: Sequence[Claim], written_bytes: float, files: int) -> list[tuple[str, str]]:
        """Files on all OSTs of a list differ by one stripe each.

        fsage's own notes have the stripes of the directory above, wherever these lie.
        """
        lustre = lustre_of(spec)
        names = list(map(str, lustre["osts"] or ()))
        if lustre["stripe_count"] == ALL_OSTS and claims and not lustre["pool"]:
            names = names or sorted(claims[0]["lustre"]["osts"])
        if names and lustre["stripe_count"] in (ALL_OSTS, len(names)):
            stripes_bytes = files * lustre["stripe_size_mib"] * MIB
            share_bytes = min(written_bytes, written_bytes / len(names) + stripes_bytes)
            how = f"at most {round_size(share_bytes)}: {', '.join(names)}"
        elif lustre["stripe_count"] == 1 and lustre["first_ost"] >= 0:
            how = f"all on OST {lustre['first_ost']}"
        elif lustre["pool"]:
            how = f"at most all of it on any OST of pool {lustre['pool']}: Lustre chooses"
        else:
            how = "at most all of it on any OST that there is: Lustre chooses"
        return [("of it on each OST", f"{how}; fsage's own notes, less than 1 MiB, on any")]


def lustre_of(spec: Spec) -> LustreSpec:
    """What a target of kind lustre is on."""
    return cast(LustreSpec, cast(Json, spec)["lustre"])


def _whole(spec: Spec) -> bool:
    """Whether it has the file system for itself."""
    return lustre_of(spec)["capacity_gib"] == "all"


def _name(spec: Spec) -> str:
    """The file system, as a mount has it."""
    return f"{lustre_of(spec)['mgs']}:/{lustre_of(spec)['fsname']}"
