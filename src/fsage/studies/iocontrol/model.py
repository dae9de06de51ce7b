"""Steps of states of I/O control: files in pieces and whole ones, and a database, for groups that share a device."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from fsage.api.model import Achieved, Files, Step
from fsage.studies.defrag.model import whole_mib
from fsage.studies.prealloc.model import MAP_BYTES

IN_PIECES, BETWEEN, WHOLE, OTHER_WHOLE = range(4)
FILES = 4
KIB = 1024
SLACK_BYTES = 1 << 20  # for what the file system notes beside the maps of extents


@dataclass(frozen=True)
class ContendedFiles(Step):
    """Make a file in pieces of `piece_bytes` and two whole ones, of `percent` of the capacity; all take four times it.

    Of the file in pieces the first `hot_bytes` of each `every_bytes` are hot, which some cells read alone; none: all.
    """

    ONE_STORE: ClassVar[bool] = True
    WANTS: ClassVar[tuple[str, ...]] = ("own_stores", "takes_layouts")

    percent: int
    piece_bytes: int
    hot_bytes: int | None = None
    every_bytes: int | None = None

    def describe(self) -> str:
        return f"make a file in extents of {self.piece_bytes} bytes and two contiguous ones, of {self.percent}% each"

    def file_bytes(self, capacity_bytes: int) -> int:
        """The size of each."""
        return whole_mib(self.percent, capacity_bytes)

    def unavailable_because(self, capacity_bytes: int) -> str | None:
        """The file in pieces is of less than two, or all of them do not fit."""
        size = self.file_bytes(capacity_bytes)
        if size <= self.piece_bytes:
            return f"a file of {self.percent}% has {size} bytes, not more than a piece of {self.piece_bytes}"
        needs = 2 * size + self.between_bytes(size)
        if needs > capacity_bytes:
            return f"to {self.describe()} takes {needs} bytes, and the target has {capacity_bytes}: lower file_percent"
        return None

    def writes_bytes(self, capacity_bytes: int) -> int:
        """Bytes of each of the three files that are read."""
        return 3 * self.file_bytes(capacity_bytes)

    def between_bytes(self, size: int) -> int:
        """The length of file 1, whose holes hold file 0 and what the file system notes of both."""
        accounting_bytes = 2 * MAP_BYTES * (size // self.piece_bytes) + SLACK_BYTES
        return 2 * (size + -(-accounting_bytes // self.piece_bytes) * self.piece_bytes)

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """All four are there."""
        size = self.file_bytes(capacity_bytes)
        for index in range(FILES):
            files[self.generation, index] = self.between_bytes(size) if index == BETWEEN else size

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation of four files."""
        sizes = FILES * [self.file_bytes(capacity_bytes)]  # file 1 less its holes
        shares.append(self.filled(sizes, capacity_bytes, FILES * self.percent))


PAGE_BYTES = 4096
ROWS_A_PAGE = 4
NUMBER_BITS = 24
INNER = 200  # at least so many pages with rows are found through one page without


@dataclass(frozen=True)
class Sqlite(Step):
    """Make a database of `percent` of the capacity."""

    percent: int
    seed: int | None

    def describe(self) -> str:
        return f"make an SQLite database of {self.percent}%"

    def file_bytes(self, capacity_bytes: int) -> int:
        """What is kept for it."""
        return whole_mib(self.percent, capacity_bytes)

    def writes_bytes(self, capacity_bytes: int) -> int:
        return self.file_bytes(capacity_bytes)

    def rows(self, capacity_bytes: int) -> int:
        """How many rows fit."""
        pages = self.file_bytes(capacity_bytes) // PAGE_BYTES
        return max(0, pages - pages // INNER - INNER) * ROWS_A_PAGE

    def numbers(self, count: int) -> Iterator[int]:
        """The number of each row."""
        drawn = random.Random(self.seed)
        return (drawn.getrandbits(NUMBER_BITS) for _ in range(count))

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """It is there; its size is SQLite's business."""
        files[self.generation, 0] = None

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation of one file."""
        shares.append(self.filled([self.file_bytes(capacity_bytes)], capacity_bytes, self.percent))
