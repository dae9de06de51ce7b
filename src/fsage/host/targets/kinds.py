"""What a host does with each kind of target (fsage.model.kinds) before there is one.

Each is a module of fsage.host.kinds, found by its name, with `TARGET`, a class of fsage.host.targets.target.Target.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

from fsage.model import kinds as model
from fsage.model import plugins
from fsage.model.claim import Claim
from fsage.model.hosts import Asker
from fsage.model.target import Spec

PACKAGE = "fsage.host.kinds"

Result = dict[str, Any]
"""What a verb answers: changed, msg, and more."""


class Lacking(NamedTuple):
    """What a host lacks for a kind of target, a sentence each, and what room it has: bytes by directory."""

    missing: list[str]
    room_bytes: dict[str, int]


class Kind(model.Kind):
    """What is done with a kind of target, before it is opened and after."""

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
    def claimed_elsewhere(cls, spec: Spec) -> Claim | None:
        """The claim as the target itself has it, for hosts on which `claim` was not run."""
        return None

    @classmethod
    def begun(cls, spec: Spec) -> bool:
        """Whether something is to be taken back although there is no claim."""
        return False

    @classmethod
    @abstractmethod
    def take_back(cls, spec: Spec, claim: Claim | None) -> list[str]:
        """Remove what is fsage's from the target; a sentence for each thing that is proved to be gone."""


def named(name: Any) -> type[Kind]:
    """The kind of this name. Raises Refusal where there is none."""
    kind: type[Kind] = plugins.module(PACKAGE, "host", model.named(name).kind).TARGET
    return kind
