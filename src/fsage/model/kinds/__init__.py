"""The kinds of target, one module each, named after it: what its declaration alone says of a target.

A module has `KIND`, a class; a study's are in its folder `kinds`. What a host does with a target of the kind is in the
module of fsage.host.kinds, or of the study's `host`, that has the same name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from fsage.model import filesystems, plugins
from fsage.model.claim import Claim
from fsage.model.errors import Refusal
from fsage.model.target import Spec
from fsage.model.typed import JsonView


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


def names() -> list[str]:
    """Names of the kinds there are."""
    return plugins.names(__name__, "kinds")


def get(name: object) -> type[Kind] | None:
    """The kind of this name; None where there is none."""
    if name not in names():
        return None
    kind: type[Kind] = plugins.module(__name__, "kinds", name).KIND
    return kind


def named(name: object) -> type[Kind]:
    """The kind of this name. Raises Refusal where there is none."""
    kind = get(name)
    if not kind:
        raise Refusal(f"no target is of kind {name!r:.100}: there are {', '.join(names())}")
    return kind


def kind_of(claim: JsonView) -> type[Kind]:
    """The kind of a claimed target."""
    return named(claim["kind"])
