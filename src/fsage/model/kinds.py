"""The kinds of target: what its declaration alone says of a target.

Each is a class here, or in the model of a study's folder. What a host does with a target of the kind is in
the module of fsage.host.kinds, or of that study's `host`, that has its name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from fsage.base import GIB, Json, JsonView, Refusal
from fsage.model import filesystems, plugins
from fsage.model.claim import Claim
from fsage.model.target import Spec


class Kind(ABC):
    """A kind of target."""

    kind: ClassVar[str]
    title: ClassVar[str] = ""
    """What it is, for `fsage doctor`; a kind with stores of its own needs none."""
    block: ClassVar[type | None] = None
    """The keys that a declaration has for this kind alone, under its name."""
    example: ClassVar[Json] = {}
    """What a declaration of this kind must have at least."""
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
    def complete(cls, spec: Json) -> None:
        """Complete and check what a declaration has for this kind alone. Raises Refusal."""
        return

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

    @classmethod
    def fsname(cls, spec: Spec) -> str | None:
        """The name of the shared file system that rules of root's helper are for; None: they are for the host alone."""
        return None

    @classmethod
    def named_hosts(cls, spec: Spec) -> dict[str, list[str]]:
        """The hosts that the declaration names, by the group of the inventory that must have them."""
        return {}

    @classmethod
    def told_by(cls, spec: Spec) -> str | None:
        """What tells the target from all others before it is claimed, in words; None: nothing."""
        return None

    @classmethod
    def anonymous(cls, spec: Spec) -> Json:
        """What an anonymous copy of the declaration has for this kind alone."""
        return {}

    @classmethod
    def width(cls, claim: JsonView) -> int:
        """Over how many stores, or OSTs, a file of a claimed target may lie."""
        return len(claim["stores"])

    @classmethod
    def unlimited(cls, spec: Spec) -> str:
        """How much it may hold where `most_bytes` is not known, in words."""
        return "all that is free"

    @classmethod
    def on_each(cls, spec: Spec, claims: Sequence[Claim], written_bytes: float, files: int) -> list[tuple[str, str]]:
        """How much of `written_bytes`, in so many files, may lie on one server's target: rows of two words each."""
        return []


class Directory(Kind):
    """A directory on a file system that is other people's too, and of which nothing is known."""

    kind = "directory"
    title = "a plain directory, whose file system is others' too"
    takes_turns = True
    how_shared = ". Its clients share the folder fsage_target.home: declare one that each of them sees"

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
    """File systems in image files that fsage makes: they, or a device model's disks, are attached to loop devices."""

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
            takes = filesystems.takes(spec).words()
            made = f"{'the' if claimed else 'a new'} sparse image of {spec['size_gib']} GiB ({takes})"
        return f"all that is in {made} below {spec['image_dir'] or 'the roomiest place'}; no device or file of others"


@cache
def _all() -> dict[object, type[Kind]]:
    # mypy wants a class that can be made; `declared` only asks what is derived from it.
    return plugins.by_name((cls.kind, cls) for cls in plugins.declared(Kind, __name__))  # type: ignore[type-abstract]


@cache
def blocks() -> Mapping[str, type]:
    """Keys that a declaration has for one kind alone, by the kind's name."""
    return {kind.kind: kind.block for kind in _all().values() if kind.block}


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
