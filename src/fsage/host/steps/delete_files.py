"""Step `delete_files`: of a generation's files, some are deleted, one after the other in a seeded random order.

The target's allocator starts anew before each cell, as always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fsage.host.steps.interleave import sizes_of
from fsage.host.structure import files
from fsage.host.structure.step import Achieved, Files, Shard, Step, Work

if TYPE_CHECKING:
    from fsage.host.targets.target import Target


@dataclass(frozen=True)
class DeleteFiles(Step):
    """Delete so many files of the generation (`deleted`)."""

    deleted: int
    seed: int | None

    def describe(self) -> str:
        """The step in words."""
        return f"delete {self.deleted} files of generation {self.generation}"

    def going(self, count: int) -> list[int]:
        """Indices among `count` files that it deletes, in their order."""
        return order(self.seed, self.generation, count)[: self.deleted]

    def continues(self, last: Step) -> bool:
        """More of the same generation go on from fewer."""
        if not isinstance(last, DeleteFiles):
            return False
        return replace(last, deleted=self.deleted) == self and self.deleted > last.deleted

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Delete the files that go."""
        gone = 0
        for index in self.going(len(sizes_of(done, self.generation, target.capacity_bytes))):
            check_lease()
            path = files.path_of(target.mounts, self.generation, index)
            gone += path.exists()
            path.unlink(missing_ok=True)
        return Work(gone)

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """They are gone."""
        count = sum(1 for key, size in files.items() if key[0] == self.generation and size is not None)
        for index in self.going(count):
            files.pop((self.generation, index), None)

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """How much of the generation was deleted."""
        sizes = sizes_of(done, self.generation, capacity_bytes)
        gone = self.going(len(sizes))
        shares[-1]["deleted_files"] = len(gone)
        shares[-1]["deleted_share_files"] = len(gone) / len(sizes)
        shares[-1]["deleted_share_bytes"] = sum(sizes[index] for index in gone) / sum(sizes)


def order(seed: int | None, generation: int, count: int) -> list[int]:
    """Indices of a generation's files in the order in which they go."""
    return sorted(range(count), key=lambda index: files.fate(seed, generation, index))
