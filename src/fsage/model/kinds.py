"""The kinds of target: what its declaration alone says of a target.

Each is a class here, or in the model of a study's folder. What a host does with a target of the kind is in the module
of fsage.host.kinds, or of that study's `host`, that has its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import ClassVar

from fsage.base import GIB, JsonView, Refusal
from fsage.model import filesystems, plugins
from fsage.model.claim import Claim
from fsage.model.filesystems import takes
from fsage.model.target import LustreSpec, Spec, declared, usual


class Kind(ABC):
    """A kind of target."""

    kind: ClassVar[str]
    takes_layouts: ClassVar[bool] = False
    """Whether free space can be laid out on one of its stores, block by block."""
    own_stores: ClassVar[bool] = False
    """Whether its stores are devices and file systems of its own: the kernel keeps it in bounds, all state is known."""
    of_one_host: ClassVar[bool] = False
    """Whether it is one host's: what is noted of it is believed there alone, and it is mounted where fsage's are."""
    counts: ClassVar[tuple[str, ...]] = ()
    """Workloads that tell something where nothing is timed, for kernels that are programs mount it; none: all do."""
    guests: ClassVar[bool] = False
    """Whether its cells run in guests, which have kernels and disks of their own."""
    drifts: ClassVar[bool] = True
    """Whether its device may be faster or slower later: where a study asks for it, cells watch for that."""
    takes_turns: ClassVar[bool] = False
    """Whether others load its device too: then states that are built in no time are visited in turns."""
    has_osts: ClassVar[bool] = False
    """Whether it has Lustre's servers and OSTs, and stripes files over them."""
    meaningless: ClassVar[tuple[str, ...]] = ()
    """Keys of a declaration that mean nothing for it, and which a claim does not keep."""
    how_shared: ClassVar[str] = ""
    """What a message adds to the command `claim`, on a host that does not know of the claim."""

    @classmethod
    def filesystems(cls) -> list[str]:
        """Names of the file systems that a target of this kind can have."""
        return filesystems.names()

    @classmethod
    def complete(cls, spec: dict[str, object]) -> None:
        """Complete and check what a declaration has for this kind alone. Raises Refusal."""
        if spec["lustre"] is not None:
            raise Refusal(f"fsage_target.lustre is for kind lustre; kind is {spec['kind']!r}")

    @classmethod
    def laid_bytes(cls, claim: Claim) -> int | None:
        """The size of the one device on which free space can be laid out block by block; None where there is none."""
        return None

    @classmethod
    def tells_nothing(cls, spec: Spec, workload: str) -> str | None:
        """Why no cell of a workload tells anything on a target that is declared like this; None where some may."""
        return None

    @classmethod
    def why_no_kernel(cls, spec: Spec, names: Collection[str]) -> str | None:
        """Why this machine measures no cells on kernels of these names; None where it does."""
        return None

    @classmethod
    @abstractmethod
    def most_bytes(cls, spec: Spec) -> int | None:
        """What a target that is declared like this has at most; None where that is not known before the claim."""

    @classmethod
    @abstractmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        """What claiming and measuring it overwrites or deletes, in words."""

    @classmethod
    def disturbs(cls, spec: Spec, other: Spec) -> str | None:
        """In which way two targets of this kind would change each other's state; None when they would not."""
        return None


class Directory(Kind):
    """A directory on a file system that is other people's too, and of which nothing is known."""

    kind = "directory"
    takes_turns = True
    how_shared = "; of several clients all share fsage_target.home"

    @classmethod
    def most_bytes(cls, spec: Spec) -> int | None:
        return int(spec["budget_gib"] * GIB)

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        return f"files that fsage made in {spec['directory']}; nothing else there is touched"

    @classmethod
    def disturbs(cls, spec: Spec, other: Spec) -> str | None:
        ours = Path(spec["directory"]).resolve()
        theirs = Path(other["directory"]).resolve()
        if ours != theirs and ours not in theirs.parents and theirs not in ours.parents:
            return None
        return f"shares a file tree with {spec['name']} ({other['directory']}, {spec['directory']})"


class Loop(Kind):
    """Its images, or a device model's disks, are attached to loop devices."""

    kind = "loop"
    own_stores = of_one_host = takes_layouts = True
    meaningless: ClassVar[tuple[str, ...]] = ("directory",)  # where it is not declared it is another for each user

    @classmethod
    def laid_bytes(cls, claim: Claim) -> int | None:
        return claim["stores"][0]["image_id"]["bytes"]

    @classmethod
    def most_bytes(cls, spec: Spec) -> int | None:
        return int(spec["size_gib"] * GIB)

    @classmethod
    def destroys(cls, spec: Spec, claimed: bool) -> str:
        made = f"{'the' if claimed else 'a new'} image of up to {spec['size_gib']} GiB"
        if spec["sparse"]:
            made = f"{'the' if claimed else 'a new'} sparse image of {spec['size_gib']} GiB ({takes(spec).words()})"
        return f"all that is in {made} below {spec['image_dir'] or 'the roomiest place'}; no device or file of others"


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


@cache
def _all() -> dict[object, type[Kind]]:
    return {cls.kind: cls for cls in plugins.declared(Kind, __name__)}  # type: ignore[type-abstract]


def names() -> list[str]:
    """Names of the kinds there are."""
    return sorted(map(str, _all()))


def get(name: object) -> type[Kind] | None:
    """The kind of this name; None where there is none."""
    return _all().get(name)


def named(name: object) -> type[Kind]:
    """The kind of this name. Raises Refusal where there is none."""
    kind = get(name)
    if not kind:
        raise Refusal(f"no target is of kind {name!r:.100}: there are {', '.join(names())}")
    return kind


def kind_of(claim: JsonView) -> type[Kind]:
    """The kind of a claimed target."""
    return named(claim["kind"])
