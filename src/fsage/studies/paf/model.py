"""Steps of states of age in percent: files are added, and a share of them is deleted (PAF)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple

from fsage.api.model import BLOCK_BYTES, MIB, Achieved, Files, Step, format_size

Method = Literal["fallocate", "write", "buffered"]
METHOD: Method = "fallocate"
REQUEST_BYTES = 4 * MIB
"""Lustre's client gathers what the study wrote, in 512 KiB, to RPCs of max_pages_per_rpc=1024 pages."""
FILES_AT_ONCE = 16
"""The threads of one of the study's 12 clients; how many of its 192 met on one OST is not known."""


class Filler(NamedTuple):
    """One way of making files that fill a target: the last fields of a step `populate`, and axes of a study.

    How they get their blocks decides where holes are left, and with them the result.
    """

    filler: Method
    request_size: int
    files_at_once: int

    def __str__(self) -> str:
        return f"{self.filler}.{format_size(self.request_size)}x{self.files_at_once}"

    def nominal(self) -> dict[str, object]:
        """What records keep of it, as numbers for figures."""
        return {
            "filler": self.filler,
            "request_size_bytes": self.request_size,
            "files_at_once": self.files_at_once,
        }


@dataclass(frozen=True)
class Populate(Step):
    """Add files of `file_bytes`, mixed in equal byte shares, worth `percent` of the capacity."""

    SHARDED: ClassVar[bool] = True
    DRAWS: ClassVar[bool] = False
    PLAYBOOK: ClassVar[str] = "populate.yml"

    percent: int
    file_bytes: tuple[int, ...]
    seed: int | None
    method: Method = METHOD
    request_bytes: int = REQUEST_BYTES
    files_at_once: int = FILES_AT_ONCE

    def on_target(self, scale_file_size: float, seed: int) -> Step:
        """With file sizes scaled to whole 4 KiB, and the seed."""
        scaled = tuple(max(1, round(size * scale_file_size / BLOCK_BYTES)) * BLOCK_BYTES for size in self.file_bytes)
        return replace(self, file_bytes=scaled, seed=seed if self.seed is None else self.seed)

    def describe(self) -> str:
        return f"populate generation {self.generation} to {self.percent}%"

    def unavailable_because(self, capacity_bytes: int) -> str | None:
        """No file of a size fits."""
        goal_bytes = capacity_bytes * self.percent // 100
        largest_bytes = max(self.file_bytes)
        if not self.percent or largest_bytes <= goal_bytes:
            return None
        return (
            f"file_size: a file is {largest_bytes} bytes on this target, and {self.percent}% of its {capacity_bytes} "
            f"bytes are {goal_bytes}: not one file fits. Give a smaller file_size, or a larger target (size_gib)"
        )

    def writes_bytes(self, capacity_bytes: int) -> int:
        if self.method == "fallocate":
            return 0
        return capacity_bytes * self.percent // 100

    def calls(self, capacity_bytes: int) -> int:
        """A file's opening and closing, and its requests."""
        sizes = self.sizes(capacity_bytes)
        return 2 * len(sizes) + sum(-(-size // self.request_bytes) for size in sizes)

    def sizes(self, capacity_bytes: int) -> tuple[int, ...]:
        """Sizes of its files by index."""
        return file_sizes(self.percent, self.file_bytes, capacity_bytes)

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """Its files are there."""
        files.update({(self.generation, index): size for index, size in enumerate(self.sizes(capacity_bytes))})

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation more."""
        shares.append(self.filled(self.sizes(capacity_bytes), capacity_bytes, self.percent))


@lru_cache(maxsize=8)
def file_sizes(percent: int, sizes_bytes: tuple[int, ...], capacity_bytes: int) -> tuple[int, ...]:
    """Sizes of the files of one generation by index: as many as fit into `percent` of the capacity.

    Several sizes are mixed in equal byte shares: the next file has the size that lags most (the first of
    equals). The sum falls short of the goal by less than one file.
    """
    goal = capacity_bytes * percent // 100
    given = [0] * len(sizes_bytes)
    made: list[int] = []
    total = 0
    while True:
        lagging = min(range(len(sizes_bytes)), key=given.__getitem__)
        size = sizes_bytes[lagging]
        if total + size > goal:
            return tuple(made)
        made.append(size)
        given[lagging] += size
        total += size


def sizes_of(done: Sequence[Step], generation: int, capacity_bytes: int) -> tuple[int, ...]:
    """Sizes of the files of a generation that was populated among the steps `done`."""
    made = next(step for step in done if isinstance(step, Populate) and step.generation == generation)
    return made.sizes(capacity_bytes)


@dataclass(frozen=True)
class Fragment(Step):
    """Delete `percent` of the files of the generation: those with the lowest draws."""

    SHARDED: ClassVar[bool] = True
    DELETES: ClassVar[bool] = True
    PLAYBOOK: ClassVar[str] = "fragment.yml"

    percent: int
    seed: int | None

    def describe(self) -> str:
        return f"fragment generation {self.generation} by {self.percent}%"

    def to_delete(self, count: int) -> set[int]:
        """Indices among `count` files of its generation that it deletes: what a smaller step deletes, and more."""
        return set(self.drawn(count)[: (count * self.percent + 50) // 100])

    def continues(self, last: Step) -> bool:
        """Whether `last` deleted a smaller share of the same generation."""
        if not isinstance(last, Fragment):
            return False
        return replace(last, percent=self.percent) == self and self.percent > last.percent

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """The files to delete are gone."""
        count = sum(1 for generation, _ in files if generation == self.generation)
        for index in self.to_delete(count):
            files.pop((self.generation, index), None)

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """How much of the generation was deleted."""
        sizes = sizes_of(done, self.generation, capacity_bytes)
        lost = self.to_delete(len(sizes))
        share = shares[-1]
        share["fragmentation_percent"] = self.percent
        share["deleted_files"] = len(lost)
        if sizes:
            share["deleted_share_files"] = len(lost) / len(sizes)
            share["deleted_share_bytes"] = sum(sizes[index] for index in lost) / sum(sizes)
