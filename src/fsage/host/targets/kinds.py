"""The kinds of target that there are, and what each is asked before there is a target.

Each is a module of fsage.host.kinds, found by its name, with `TARGET`, a class of fsage.host.targets.target.Target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

from fsage.model import plugins
from fsage.model.claim import Claim
from fsage.model.errors import Refusal
from fsage.model.hosts import Asker
from fsage.model.target import Spec

PACKAGE = "fsage.host.kinds"

Result = dict[str, Any]
"""What a verb answers: changed, msg, and more."""


class Lacking(NamedTuple):
    """What a host lacks for a kind of target, a sentence each, and what room it has: bytes by directory."""

    missing: list[str]
    room_bytes: dict[str, int]


class Kind(ABC):
    """A kind of target."""

    kind: ClassVar[str]
    own_stores: ClassVar[bool] = False
    """Whether its stores are devices and file systems of its own: the kernel keeps it in bounds, all state is known."""
    of_one_host: ClassVar[bool] = False
    """Whether it is one host's: what is noted of it is believed there alone, and it is mounted where fsage's are."""
    has_osts: ClassVar[bool] = False
    """Whether it has Lustre's servers and OSTs, and stripes files over them."""
    meaningless: ClassVar[tuple[str, ...]] = ()
    """Keys of a declaration that mean nothing for it, and which a claim does not keep."""
    how_shared: ClassVar[str] = ""
    """What is said to a host that does not know of the claim, beside how to claim it."""

    @classmethod
    def complete(cls, spec: dict[str, Any]) -> None:
        """Complete and check what a declaration has for this kind alone. Raises Refusal."""
        if spec["lustre"] is not None:
            raise Refusal(f"fsage_target.lustre is for kind lustre; kind is {spec['kind']!r}")

    @classmethod
    @abstractmethod
    def lacking(cls, spec: Spec) -> Lacking:
        """What this host lacks to hold such a target; changes nothing."""

    @classmethod
    def refuse_to_create(cls, spec: Spec, claimed: bool) -> None:
        """`Refusal` where it cannot be made, before other hosts are asked; `claimed`: this host knows of a claim."""
        return

    @classmethod
    @abstractmethod
    def create(cls, spec: Spec, request: Asker, check: bool) -> Result:
        """Make what is claimed then; idempotent. Raises Refusal, Failure."""

    @classmethod
    @abstractmethod
    def remove(cls, spec: Spec, check: bool, released: Result) -> Result:
        """Delete what `create` made, and only that, of a target that was `released` just now."""

    @classmethod
    @abstractmethod
    def claim_new(cls, spec: Spec, hosts: list[str], check: bool) -> Result:
        """Claim what was created, for these clients. Raises Refusal, Failure."""

    @classmethod
    def laid_bytes(cls, claim: Claim) -> int | None:
        """The size of the one device on which free space can be laid out block by block; None where there is none."""
        return None

    @classmethod
    def claimed_elsewhere(cls, spec: Spec) -> Claim | None:
        """The claim as the target itself has it, for hosts on which `claim` was not run."""
        return None

    @classmethod
    def begun(cls, spec: Spec) -> bool:
        """Whether something is to be taken back although there is no claim."""
        return False

    @classmethod
    @abstractmethod
    def take_back(cls, spec: Spec, known: Claim | None) -> list[str]:
        """Remove what is fsage's from the target; a sentence for each thing that is proved to be gone."""

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
    return plugins.names(PACKAGE)


def get(name: Any) -> type[Kind] | None:
    """The kind of this name; None where there is none."""
    if name not in names():
        return None
    found: type[Kind] = plugins.module(PACKAGE, name).TARGET
    return found


def of(name: Any) -> type[Kind]:
    """The kind of this name. Raises Refusal where there is none."""
    if not (found := get(name)):
        raise Refusal(f"no target is of kind {name!r:.100}: there are {', '.join(names())}")
    return found
