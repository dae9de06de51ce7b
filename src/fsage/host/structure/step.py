"""A step towards a state: what every kind of step is and offers, with what most of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypedDict

from fsage.host.targets.target import Target
from fsage.model import plugins
from fsage.model.message import Unacceptable, shown
from fsage.model.typed import read_block, to_json

Files = dict[tuple[int, int], "int | None"]
"""(generation, index) -> bytes of a file that must be there; None: of any size."""
Notes = dict[str, Any]
"""What a step notes of its work, for the state's token: plain JSON."""


@dataclass(frozen=True)
class Shard:
    """One host's part of a step that several share: file i is of host i mod `count`."""

    index: int = 0
    count: int = 1
    threads: int = 1


ALONE = Shard()


@dataclass(frozen=True)
class Work:
    """What came of a shard: how many files it changed, and notes; `unsupported` among them: why it cannot be done."""

    files: int
    notes: Notes = field(default_factory=dict)


class Achieved(TypedDict):
    """Nominal beside achieved shares of a generation of files, of the capacity and of its own files and bytes."""

    generation: int
    capacity_percent: float
    capacity_percent_achieved: float
    files: int
    bytes: int
    fragmentation_percent: int
    deleted_files: int
    deleted_share_files: float
    deleted_share_bytes: float


@dataclass(frozen=True)
class Step(ABC):
    """One of them; a kind is a subclass in a module of fsage.host.steps that has the kind's name.

    Fields are numbers, texts and lists, as they stand in a request, with units in their names. `generation` numbers the
    files that belong together, from 1. A seed is None only until a request is made (`on_target`).
    """

    kind: ClassVar[str] = ""
    SHARDED: ClassVar[bool] = False
    """Whether several hosts may share the work."""
    REPLACES: ClassVar[bool] = False
    """Whether the files of the steps before are gone after it."""
    PLAYBOOK: ClassVar[str] = "apply_step.yml"

    generation: int

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__module__.rpartition(".")[2]

    def to_json(self) -> dict[str, Any]:
        """The step as it stands in a request, a token and a record."""
        written = {one.name: to_json(getattr(self, one.name)) for one in fields(self)}
        absent = {one.name for one in fields(self) if one.default is None and written[one.name] is None}
        return {"kind": self.kind, **{name: value for name, value in written.items() if name not in absent}}

    @classmethod
    def from_json(cls, value: Any, where: str) -> Step:
        """The step of whatever kind `value` is. Raises Unacceptable."""
        return read(value, where)

    def on_target(self, scale_file_size: float, seed: int) -> Step:
        """The step for a target that scales file sizes, with `seed` where it names none."""
        without = getattr(self, "seed", seed) is None
        return replace(self, **{"seed": seed}) if without else self

    @abstractmethod
    def describe(self) -> str:
        """The step in words, as an order."""

    def continues(self, last: Step) -> bool:
        """Whether it goes on from where `last`, a smaller step of its kind, left."""
        return False

    def writes_bytes(self, capacity_bytes: int) -> int:
        """How much data it writes, for an estimate of its time; what `fallocate` gives is not written."""
        return 0

    def calls(self, capacity_bytes: int) -> int:
        """How many system calls it takes beside, about, where they are so many that they take time."""
        return 0

    @abstractmethod
    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Do one shard of it; `done`: the steps before.

        `check_lease` is called before each file; what it raises ends the step. Raises Failure.
        """

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """Change `files` into what must be there after the step."""
        return

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """Files that must be there too and have names of their own, by what its `work` noted."""
        return []

    def verify(self, target: Target) -> None:
        """Look at what names and sizes do not tell of what was made. Raises Failure."""
        return

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """Add to what the steps before, `done`, achieved: one entry a generation."""
        return


PACKAGE = "fsage.host.steps"


def kinds() -> list[str]:
    """Names of the kinds of step there are: the modules of fsage.host.steps."""
    return plugins.names(PACKAGE)


@cache
def of(kind: str) -> type[Step]:
    """The class of a kind of step."""
    module = plugins.module(PACKAGE, kind)
    (found,) = (
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Step) and one.__module__ == module.__name__
    )
    return found


def read(value: Any, where: str = "step") -> Step:
    """A step as it stands in a request or a token. Raises Unacceptable naming the field and what is wanted."""
    kind = value.get("kind") if isinstance(value, dict) else value
    if not isinstance(kind, str) or kind not in kinds():
        raise Unacceptable(f"{where}.kind is {shown(kind)}: one of {', '.join(kinds())} is wanted")
    step = read_block(of(kind), {key: one for key, one in value.items() if key != "kind"}, where)
    if getattr(step, "seed", 0) is None:
        raise Unacceptable(f"{where}.seed is None: a whole number is wanted")
    return step
