"""Steps of states of preallocation: files with alternating pieces, of which some are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from fsage.api.model import Achieved, Files, Step

MAP_BYTES = 16  # a piece costs at most about that much in its file's extent tree
RESERVE_BYTES = 256 * 1024  # of each file, and for directories
OWN_BYTES = 32 << 20  # what a file system keeps for itself although it is free: ext4 4096 blocks, XFS 8192
TOGETHER = "together"


@dataclass(frozen=True)
class Interleave(Step):
    """Fill the target with so many `files`, whose pieces of `granularity_bytes` lie in turns."""

    ONE_STORE: ClassVar[bool] = True

    files: int
    granularity_bytes: int
    method: Literal["fallocate", "together"] = "fallocate"

    def describe(self) -> str:
        return f"interleave {self.files} files in pieces of {self.granularity_bytes >> 10} KiB"

    def unavailable_because(self, capacity_bytes: int) -> str | None:
        """A file gets no piece."""
        if all(self.file_sizes(capacity_bytes)):
            return None
        return (
            f"preallocation_size: of {self.files} files some get no piece of {self.granularity_bytes} bytes in "
            f"{capacity_bytes}. Give a smaller preallocation_size, fewer files, or a larger target (size_gib)"
        )

    def server_preallocation_bytes(self) -> int | None:
        """The granularity, where the servers' preallocation lays out the pieces."""
        if self.method == TOGETHER:
            return self.granularity_bytes
        return None

    def file_sizes(self, capacity_bytes: int) -> list[int]:
        """Sizes of the files by index: whole pieces, one more for the first ones where they do not come out even."""
        count = self.files
        piece_bytes = self.granularity_bytes
        accounting_bytes = capacity_bytes // piece_bytes * MAP_BYTES + (count + 2) * RESERVE_BYTES + OWN_BYTES
        pieces = max(0, capacity_bytes - accounting_bytes) // piece_bytes
        return [(pieces // count + (index < pieces % count)) * piece_bytes for index in range(count)]

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """Its files are there, and the one of what was left."""
        files.update({(self.generation, index): size for index, size in enumerate(self.file_sizes(capacity_bytes))})
        files[self.generation, self.files] = None

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation more."""
        sizes = self.file_sizes(capacity_bytes)
        shares.append(self.filled(sizes, capacity_bytes, 100))


def sizes_of(done: Sequence[Step], generation: int, capacity_bytes: int) -> list[int]:
    """Sizes of the files of a generation that was interleaved among the steps `done`."""
    made = next(step for step in done if isinstance(step, Interleave) and step.generation == generation)
    return made.file_sizes(capacity_bytes)


@dataclass(frozen=True)
class DeleteFiles(Step):
    """Delete so many files of the generation (`deleted`)."""

    deleted: int
    seed: int | None

    def describe(self) -> str:
        return f"delete {self.deleted} files of generation {self.generation}"

    def going(self, count: int) -> list[int]:
        """Indices among `count` files that it deletes, in their order."""
        return self.drawn(count)[: self.deleted]

    def continues(self, last: Step) -> bool:
        """Whether `last` deleted fewer files of the same generation."""
        if not isinstance(last, DeleteFiles):
            return False
        return replace(last, deleted=self.deleted) == self and self.deleted > last.deleted

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
