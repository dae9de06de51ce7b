"""Step `sqlite`: a whole file that is an SQLite database of one table, filled from a seed, for those who ask it.

A row is a number that the seed gives and a filling, four rows to a page, so that whoever sums up the numbers reads each
page. What the sum must be is noted: it follows from the seed alone, SQLite has no part in it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from fsage.host.databases import query
from fsage.host.evidence import fiemap, fragmentation
from fsage.host.steps.contended_files import MOST_EXTENTS
from fsage.host.steps.fragmented_file import whole_mib
from fsage.host.steps.populate import filled
from fsage.host.stores import filesystems
from fsage.host.structure import files
from fsage.host.structure.room import Room
from fsage.host.structure.step import Achieved, Files, Shard, Step, Work
from fsage.model.errors import Failure

if TYPE_CHECKING:
    from fsage.host.targets.target import Target

PAGE_BYTES = 4096
ROWS_A_PAGE = 4
FILLING_BYTES = 960
NUMBER_BITS = 24
INNER = 200  # at least so many pages with rows are found through one page without
CHECK_EVERY = 4096  # rows


class Made(TypedDict):
    """What is noted of the database: its size, how it lies, and what a query must answer."""

    bytes: int
    extents: int
    rows: int
    sum: int
    length: int
    sqlite: str


@dataclass(frozen=True)
class Sqlite(Step):
    """Make a database of `percent` of the capacity."""

    percent: int
    seed: int | None

    def describe(self) -> str:
        """The step in words."""
        return f"make an SQLite database of {self.percent}%"

    def file_bytes(self, capacity_bytes: int) -> int:
        """What is kept for it."""
        return whole_mib(self.percent, capacity_bytes)

    def writes_bytes(self, capacity_bytes: int) -> int:
        """As Step.writes_bytes."""
        return self.file_bytes(capacity_bytes)

    def rows(self, capacity_bytes: int) -> int:
        """How many rows fit."""
        pages = self.file_bytes(capacity_bytes) // PAGE_BYTES
        return max(0, pages - pages // INNER - INNER) * ROWS_A_PAGE

    def numbers(self, count: int) -> Iterator[int]:
        """The number of each row."""
        drawn = random.Random(self.seed)
        return (drawn.getrandbits(NUMBER_BITS) for _ in range(count))

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Give the file its blocks at once, and have SQLite fill them; rows, sum and extents are noted."""
        if why := query.why_not():
            raise Failure(f"no database can be made: {why}")
        import sqlite3  # a Python may be built without

        size, count = self.file_bytes(target.capacity_bytes), self.rows(target.capacity_bytes)
        if not count:
            raise Failure(f"a database of {self.percent}% has {size} bytes, too few for {INNER} pages of {PAGE_BYTES}")
        room = Room(target)
        files.make_room(target.mounts, self.generation)
        path = files.path_of(target.mounts, self.generation, 0)
        filling = random.Random(self.seed).randbytes(FILLING_BYTES)

        def made() -> Iterator[tuple[int, bytes]]:
            for index, number in enumerate(self.numbers(count)):
                if index % CHECK_EVERY == 0:
                    check_lease()
                yield number, filling

        try:
            with filesystems.one_cpu():
                _keep(room, path, size)
                connection = sqlite3.connect(path, isolation_level=None)
                try:
                    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                    connection.execute("PRAGMA journal_mode = OFF")
                    connection.execute("PRAGMA synchronous = OFF")
                    connection.execute("CREATE TABLE measured (number INTEGER, filling BLOB)")
                    connection.execute("BEGIN")
                    connection.executemany("INSERT INTO measured VALUES (?, ?)", made())
                    connection.execute("COMMIT")
                finally:
                    connection.close()
                there = _end(path)
        except (OSError, sqlite3.Error) as error:
            raise Failure(f"making the database {path} of {size} bytes: {error}") from error
        extents = fragmentation.of_file(fiemap.extents(path)).extents
        if there > size or extents > MOST_EXTENTS:
            raise Failure(f"{path} has {there} bytes, of {size} that were kept for it, and lies in {extents} extents")
        noted: Made = {
            "bytes": there,
            "extents": extents,
            "rows": count,
            "sum": sum(self.numbers(count)),
            "length": count * FILLING_BYTES,
            "sqlite": sqlite3.sqlite_version,
        }
        return Work(1, {**noted})

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """It is there; its size is SQLite's business."""
        files[self.generation, 0] = None

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation of one file."""
        size = self.file_bytes(capacity_bytes)
        shares.append(filled(self.generation, size, 1, capacity_bytes, self.percent))


def _keep(room: Room, path: Path, size: int) -> None:
    """An empty file for which so many bytes are kept, in one piece if there is one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        room.keep(descriptor, path, size)
    finally:
        os.close(descriptor)


def _end(path: Path) -> int:
    """Give up what the file does not fill, and write it out; its size."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        size = os.fstat(descriptor).st_size
        os.fsync(descriptor)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return size
