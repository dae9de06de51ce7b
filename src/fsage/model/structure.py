"""What a state is made of: the steps that lead to it, and which files must then be there.

Everything follows from the steps, their seeds and the capacity, so any host can work on its shard alone and anyone can
compute afterwards what must be there. A kind of step is a class in the `model` of a study's folder, and a
function in its `host` that has the kind's name and does it.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypedDict, TypeVar

from fsage.base import Json, typed
from fsage.base.message import Unacceptable, shown
from fsage.base.typed import read_block, to_json
from fsage.model import plugins

S = TypeVar("S", bound="Step")

Files = dict[tuple[int, int], "int | None"]
"""(generation, index) -> bytes of a file that must be there; None: of any size."""
Notes = Json
"""What a step notes of its work, for the state's token: plain JSON."""


@dataclass(frozen=True)
class Shard:
    """One host's part of a step that several share: file i is of host i mod `count`."""

    index: int = 0
    count: int = 1
    threads: int = 1


ALONE = Shard()


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
    """One of them; a kind is a subclass in a study's `model`, called as the kind is: DeleteFiles.

    Fields are numbers, texts and tuples (lists in a request), with units in their names: a step can be a key.
    `generation` numbers the files that belong together, from 1. A seed is None only until a request is made
    (`on_target`).
    """

    kind: ClassVar[str] = ""
    SHARDED: ClassVar[bool] = False
    """Whether several hosts may share the work."""
    REPLACES: ClassVar[bool] = False
    """Whether the files of the steps before are gone after it."""
    DELETES: ClassVar[bool] = False
    """Whether it only takes files away."""
    DRAWS: ClassVar[bool] = True
    """Whether what it makes depends on its seed."""
    SIMULATED: ClassVar[bool] = False
    """Whether it takes seconds to know what it leaves: a plan asks that only where it must."""
    ONE_STORE: ClassVar[bool] = False
    """Whether it needs a target with one store."""
    WANTS: ClassVar[tuple[str, ...]] = ()
    """What a kind of target (`Kind`) must have, one of these at least; none: every kind can have it."""
    PLAYBOOK: ClassVar[str] = "apply_step.yml"

    generation: int

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<=.)([A-Z])", r"_\1", cls.__name__).lower()

    def to_json(self) -> Json:
        """The step as it stands in a request, a token and a record."""
        written: Json = {"kind": self.kind}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.default is not None:
                written[field.name] = to_json(value)
        return written

    @classmethod
    def among(cls: type[S], steps: Iterable[Step]) -> S | None:
        """The first step of this kind, among those of a state; None where it has none."""
        return next((step for step in steps if isinstance(step, cls)), None)

    @classmethod
    def from_json(cls, value: object, where: str) -> Step:
        """The step of whatever kind `value` is. Raises Unacceptable."""
        return read(value, where)

    def on_target(self, scale_file_size: float, seed: int) -> Step:
        """The step for a target that scales file sizes, with `seed` where it names none."""
        if getattr(self, "seed", seed) is None:
            return replace(self, **{"seed": seed})
        return self

    @property
    def needs_input(self) -> bool:
        """Whether a request has more for it than its fields say: what a field `input` names by its digest."""
        return hasattr(self, "input")

    def with_input(self, digest: str) -> Step:
        """The step with the digest of what it needs."""
        more: Json = {"input": digest}
        return replace(self, **more)

    @abstractmethod
    def describe(self) -> str:
        """The step in words, as an order."""

    def unavailable_because(self, capacity_bytes: int) -> str | None:
        """Why no target of this capacity can have it; None where one can."""
        return None

    def server_preallocation_bytes(self) -> int | None:
        """What Lustre's servers must preallocate, where the step leaves to them how its files lie; else None."""
        return None

    def continues(self, last: Step) -> bool:
        """Whether it continues `last`, a smaller step of its kind."""
        return False

    def writes_bytes(self, capacity_bytes: int) -> int:
        """How much data it writes, for an estimate of its time; what `fallocate` gives is not written."""
        return 0

    def calls(self, capacity_bytes: int) -> int:
        """How many system calls it takes beside, about, where they are so many that they take time."""
        return 0

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """Change `files` into what must be there after the step."""
        return

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """Files that must be there too and have names of their own, by what was noted of its work."""
        return []

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """Add to what the steps before, `done`, achieved: one entry a generation."""
        return

    def filled(self, sizes: Collection[int], capacity_bytes: int, percent: float) -> Achieved:
        """What its generation is when it has files of these sizes, and nothing was deleted yet."""
        return {
            "generation": self.generation,
            "capacity_percent": percent,
            "capacity_percent_achieved": 100 * sum(sizes) / capacity_bytes,
            "files": len(sizes),
            "bytes": sum(sizes),
            "fragmentation_percent": 0,
            "deleted_files": 0,
            "deleted_share_files": 0.0,
            "deleted_share_bytes": 0.0,
        }

    def drawn(self, count: int) -> list[int]:
        """Indices of its generation's files in the order, drawn by its seed, in which they are deleted."""
        return order(getattr(self, "seed", None), self.generation, count)


@cache
def _kinds() -> dict[str, type[Step]]:
    """The kinds of step there are, by their names."""
    # mypy wants a class that can be made; `declared` only asks what is derived from it.
    return plugins.by_name((cls.kind, cls) for cls in plugins.declared(Step))  # type: ignore[type-abstract]


def kinds() -> list[str]:
    """Names of the kinds of step there are."""
    return sorted(_kinds())


def step_type(kind: str) -> type[Step]:
    """The class of a kind of step."""
    return _kinds()[kind]


def read(value: Any, where: str = "step") -> Step:
    """A step as it stands in a request or a token. Raises Unacceptable naming the field and what is wanted."""
    kind = value.get("kind") if isinstance(value, dict) else value
    if not isinstance(kind, str) or kind not in kinds():
        raise Unacceptable(f"{where}.kind is {shown(kind)}: one of {', '.join(kinds())} is wanted")
    step = read_block(step_type(kind), {key: entry for key, entry in value.items() if key != "kind"}, where)
    if getattr(step, "seed", 0) is None:
        raise Unacceptable(f"{where}.seed is None: a whole number is wanted")
    return step


def read_all(values: object, where: str = "steps") -> list[Step]:
    """Steps, in order. Raises Unacceptable."""
    if not isinstance(values, list):
        raise Unacceptable(f"{where} is {shown(values)}: a list is wanted")
    return [read(value, f"{where}[{number}]") for number, value in enumerate(values)]


def expected(done: Sequence[Step], capacity_bytes: int) -> Files:
    """(generation, index) -> bytes of every file that must be there after the steps `done`; None: of any size."""
    files: Files = {}
    for step in done:
        if step.REPLACES:
            files.clear()
        step.expect(files, capacity_bytes)
    return files


def achieved(done: Sequence[Step], capacity_bytes: int) -> list[Achieved]:
    """Nominal beside achieved shares of every generation, in files and in bytes."""
    shares: list[Achieved] = []
    for number, step in enumerate(done):
        step.achieve(shares, list(done[:number]), capacity_bytes)
    return shares


def unsupported(notes: Mapping[str, Notes]) -> str | None:
    """Why a state with these notes could not be reached on this machine, as a step noted; None when it could."""
    return next((noted["unsupported"] for noted in notes.values() if "unsupported" in noted), None)


Method = Literal["fallocate", "write", "buffered"]
SHARD = 100_000
"""Files of a directory: who lists one has all their names in memory."""
BLOCK_BYTES = 4096
SLACK_BYTES = 1 << 20  # stays free where all is given away: for the target's own token, directories, maps of extents
OWN_BYTES = 32 << 20  # what a file system keeps for itself although it is free: ext4 4096 blocks, XFS 8192


def draw(seed: int | None, generation: int, index: int) -> float:
    """The uniform number u in [0, 1) of one file: those with the lowest are deleted first."""
    key = f"{seed}:{generation}:{index}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big") / 2**56


def order(seed: int | None, generation: int, count: int) -> list[int]:
    """Indices of a generation's files in the order in which they are deleted."""
    return sorted(range(count), key=lambda index: draw(seed, generation, index))


def path_of(mounts: list[Path], generation: int, index: int) -> Path:
    """The path of file `index`: files are spread over the stores in turn."""
    return Path(place_of(mounts, generation, index))


def place_of(mounts: list[Path], generation: int, index: int) -> str:
    """The path of a file as text: a million texts take a tenth of the memory of paths."""
    return f"{mounts[index % len(mounts)]}/filler/{folder_of(generation, index)}/{index:07d}"


def folder_of(generation: int, index: int) -> str:
    """The directory of file `index`, below that of all: of a generation that needs several, another for each SHARD."""
    if index >= SHARD:
        return f"g{generation}.{index // SHARD}"
    return f"g{generation}"


ALL_OSTS = -1  # a stripe count: as many as there are OSTs
SEGMENTS = "segments"
"""The realisation in which each segment is a file of its own, in a directory."""
EVICTION_FILES = 16
"""Parts of the file that is read to evict caches: so many that they spread over a target's stores."""


class Segment(NamedTuple):
    """Bytes `start_bytes` to `end_bytes` of a file, a stripe in turn to each of `stripes` objects from `first` on.

    A striped file is divided into segments at watermarks (study striping makes them, from a pattern). A segment has its
    own objects, which get its stripes in turn. Objects are numbered through the whole file.
    """

    start_bytes: int
    end_bytes: int
    stripes: int
    stripe_bytes: int
    first: int

    @property
    def length_bytes(self) -> int:
        """How many bytes of the file it holds."""
        return self.end_bytes - self.start_bytes


def noted_segments(notes: Mapping[str, Notes]) -> list[Segment]:
    """The segments of the layout in which a target's state is, of its notes; none where it has no such layout."""
    return typed.read(list[Segment], notes.get("stripe", {}).get("segments", []))


def segment_folder(segment: int) -> str:
    """The directory, beside other segments', of the file that segment number `segment` of a file is on Lustre."""
    return f"segment{segment}"
