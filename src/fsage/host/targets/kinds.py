"""What a host does with each kind of target (fsage.model.kinds) before a target is opened.

A kind is a module of fsage.host.kinds or of a study's `host`, found by its name, with `TARGET`, a subclass of
fsage.host.targets.Target. NoOsts says for most kinds that their files lie on no OSTs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from fsage.base import Json, JsonView
from fsage.host.system.settings import Holder
from fsage.layouts.machine import Mount
from fsage.model import kinds as model
from fsage.model import plugins
from fsage.model.claim import Claim
from fsage.model.counting import Job
from fsage.model.hosts import Asker, Host
from fsage.model.request import Request
from fsage.model.signs import Look
from fsage.model.structure import Segment, Step
from fsage.model.target import Spec

PACKAGE = "fsage.host.kinds"

Result = Json
"""The answer of a verb: changed, msg, and more."""
Verb = Callable[[Json, Request, bool], Json]
"""Does one thing on a host: with the declaration, the request, and whether it only checks."""
Remote = Callable[..., Json]
"""What a host agent calls: with a fsage.host.targets.OtherHost, and what the launcher gave by name."""


class Lacking(NamedTuple):
    """What a host lacks for a kind of target, a sentence each, and its free bytes by directory."""

    missing: list[str]
    room_bytes: dict[str, int]


class Servers(Protocol):
    """Reaches every server of Lustre (fsage.host.remote.remote_hosts.Hosts)."""

    def ask_servers(self, **what: object) -> dict[str, Json]:
        """The answer of each server, by name. Raises Failure."""


class Kind(model.Kind):
    """A kind of target: what can be done before one is opened, and after."""

    remote: ClassVar[Mapping[str, Remote]] = {}
    """What this kind needs on other hosts, by name."""
    verbs: ClassVar[Mapping[str, Verb]] = {}
    """What its servers can do besides, by name; they answer for targets of other kinds too."""

    @classmethod
    @abstractmethod
    def lacking(cls, spec: Spec) -> Lacking:
        """What this host lacks to hold a target of this kind; changes nothing."""

    @classmethod
    def refuse_to_create(cls, spec: Spec, claimed: bool) -> None:
        """Raise Refusal where it cannot be made, before other hosts are reached. `claimed`: this host has a claim."""
        return

    @classmethod
    def reach(cls, spec: Spec, hosts: Servers) -> None:
        """Raise Refusal where the servers do not serve what is declared. Called before it is made or claimed."""
        return

    @classmethod
    @abstractmethod
    def create(cls, spec: Spec, request: Asker, check: bool) -> Result:
        """Make what a claim needs, such as images; idempotent. Raises Refusal, Failure."""

    @classmethod
    @abstractmethod
    def remove(cls, spec: Spec, check: bool, released: Result) -> Result:
        """Delete what `create` made, and only that. `released`: the answer of the release just before."""

    @classmethod
    @abstractmethod
    def claim_new(cls, spec: Spec, request: Asker, check: bool) -> Result:
        """Claim what was created, for the clients of the request. Raises Refusal, Failure."""

    @classmethod
    def claimed_elsewhere(cls, spec: Spec) -> Claim | None:
        """The claim that the target itself holds, for hosts on which `claim` was not run; or None."""
        return None

    @classmethod
    def check_claimed(cls, spec: Spec, claim: Claim) -> None:
        """Raise Refusal unless the target is what was claimed, as far as that shows without opening it."""

    @classmethod
    def left_behind(cls, spec: Spec) -> Claim | None:
        """The claim whose mark is in the target, for a host that keeps no note of it; as much of it as is known."""
        return cls.claimed_elsewhere(spec)

    @classmethod
    def begun(cls, spec: Spec) -> bool:
        """Whether `undo_claim` has something to do although there is no claim."""
        return False

    @classmethod
    def behind(cls, spec: Spec) -> str:
        """What of its file system does not answer, the end of a sentence on an I/O error; '' if that is not known."""
        return ""

    @classmethod
    def answered(cls, verb: str, given: Json, request: Request, check: bool) -> Result | None:
        """The answer to a verb, of a kind whose targets are not opened on this host; None: this process itself does it.

        `given`: what came, of which `request` is the checked request. Raises Refusal, Failure.
        """
        return None

    @classmethod
    def counted(cls, job: Job) -> Iterator[Json] | None:
        """The lines of a count (fsage.host.verbs.count), of a kind that guests count; None: a process here does.

        Raises Refusal, Failure.
        """
        return None

    @classmethod
    def requests_here(cls, spec: Spec) -> dict[str, list[int]]:
        """How many reads and writes each OST of this server has done, and how long they took, in us. Raises Failure."""
        return {}

    @classmethod
    def look(cls, spec: Spec, below: Sequence[Mount]) -> Look:
        """What else a client's look at itself finds (fsage.studies.neighbours); `below`: the target's mounts.

        Asked of the kind of a target, and of one that has the name of what a mount is.
        """
        return {}

    @classmethod
    def astray_on(cls, spec: Spec, place: Path, tuning: JsonView) -> list[str] | None:
        """Target.astray of a target in `place`, on a mount that this kind has the name of; None: it is no client's."""
        return None

    @classmethod
    def astray_here(cls, spec: Spec) -> list[str]:
        """A sentence for each setting of this server that others than the target have set."""
        return []

    @classmethod
    def version(cls) -> str | None:
        """The version of its file system's own client on this host; None: it has none."""
        return None

    @classmethod
    def tunables(cls, spec: Spec) -> Json:
        """The values of the tunables of this client that a study may set, by name. Raises Refusal, Failure."""
        return {}

    @classmethod
    def granted(cls, spec: Spec, server: bool) -> list[list[str]]:
        """The calls of root's helper that a user needs for this kind, on a client, or on a `server` of the target."""
        return []

    @classmethod
    def holders(cls) -> list[Holder]:
        """For whom something is set on this host that stays when targets of this kind are closed."""
        return []

    @classmethod
    def undo_tunables(cls, holder: Holder) -> list[str] | None:
        """Put back what is set for a holder; a sentence for each. None: a target has to be opened for that.

        Raises Failure.
        """
        return None

    @classmethod
    @abstractmethod
    def undo_claim(cls, spec: Spec, claim: Claim | None) -> list[str]:
        """Remove what is fsage's from the target; a sentence for each thing that was verified to be gone."""


def named(name: Any) -> type[Kind]:
    """The kind of this name. Raises Refusal where there is none."""
    kind: type[Kind] = plugins.module(PACKAGE, "host", model.named(name).kind).TARGET
    return kind


def get(name: object) -> type[Kind] | None:
    """The kind of this name; None where there is none."""
    return named(name) if model.get(name) else None


def every() -> list[type[Kind]]:
    """All kinds that there are."""
    return [named(name) for name in model.names()]


class NoOsts:
    """A target without any: nothing is done. A kind of target that has OSTs has a subclass."""

    listed = False
    """Whether a list says on which OSTs each file lies: then those of a directory begin on the same."""
    tolerance_bytes = 0
    """Bytes by which others may change the used space of each OST."""

    def __init__(self) -> None:
        self.servers: list[Host] = []  # from the request: they free what was deleted
        self.session: Servers | None = None  # which has connections to them

    def ask_servers(self, **what: object) -> dict[str, Json]:
        """The answer of each server, by name. Raises Failure."""
        return {}

    def layouts(self, answers: Sequence[Json]) -> list[Json]:
        """The OSTs in the servers' `answers` to the verb `osts`: stores before those that are mounted."""
        return []

    def fullness(self) -> Json:
        """What evidence has beside the layout: {"osts": how full each is}."""
        return {}

    def spread(self, folder: Path) -> None:
        """Stripe the files that will be made in a directory over all OSTs."""
        return

    def spread_files(self, folder: Path) -> dict[str, Path]:
        """An empty or older file in a directory for each OST that is used, by the OST's name; without any, one file.

        Raises Failure.
        """
        return {"": folder / "file"}

    def is_used(self, name: str) -> bool:
        """Whether files of the target lie on a server's target of this name, as far as can be known."""
        return True

    def stripe(self, folder: Path, count: int, stripe_bytes: int) -> None:
        """Give files that are made in a directory later so many stripes. Raises Failure."""
        return

    def astray(self, paths: Sequence[Path], count: int, stripe_bytes: int) -> list[str]:
        """A sentence for each file, of a sample of them, that has other stripes than these."""
        return []

    def lay_out(self, folder: Path, segments: Sequence[Segment], composite: bool) -> None:
        """Give a file that is made in a directory later these segments, and verify that.

        `composite`: by one layout of the directory, until it is removed. Else each file has a directory of its own
        for each segment, which is only tried here. Raises Failure.
        """
        return

    def preallocated(self, request: Request, earlier: Json) -> Json:
        """What the servers answered when they were tuned for a request. `earlier`: what was noted before it.

        Raises Refusal.
        """
        return {}

    def verify_preallocation(self, step: Step) -> None:
        """Raise Refusal unless the servers preallocate as much as the step needs to lay out its files."""
        return

    def untuned(self) -> str | None:
        """Why the servers have another preallocation than was noted; None: the same, or none was set."""
        return None

    def verify_fillers(self) -> None:
        """Raise Failure where files of the structure lie on other OSTs than declared."""
        return
