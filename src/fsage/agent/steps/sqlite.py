"""Step `sqlite`: a whole file that is an SQLite database of one table, filled from a seed, for those who ask it.

Keys: generation, percent (its share of the capacity), seed. A row is a number that the seed gives and a filling, four
rows to a page, so that whoever sums up the numbers reads each page. What the sum must be is noted: it follows from the
seed alone, SQLite has no part in it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from fsage.agent import filesystems
from fsage.agent.cells import query
from fsage.agent.errors import Failure
from fsage.agent.evidence import fiemap, fragmentation
from fsage.agent.room import Room
from fsage.agent.steps import contended_files, fragmented_file
from fsage.agent.steps.populate import filled
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False
PAGE_BYTES = 4096
ROWS_A_PAGE = 4
FILLING_BYTES = 960
NUMBER_BITS = 24
INNER = 200  # at least so many pages with rows are found through one page without
CHECK_EVERY = 4096  # rows


def describe(step: dict) -> str:
    """The step in words."""
    return f"make an SQLite database of {step['percent']}%"


def rows(step: dict, capacity_bytes: int) -> int:
    """How many rows fit."""
    pages = fragmented_file.file_bytes(step, capacity_bytes) // PAGE_BYTES
    return max(0, pages - pages // INNER - INNER) * ROWS_A_PAGE


def numbers(step: dict, count: int) -> Iterator[int]:
    """The number of each row."""
    drawn = random.Random(step["seed"])
    return (drawn.getrandbits(NUMBER_BITS) for _ in range(count))


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Give the file its blocks at once, and have SQLite fill them; rows, sum and extents are noted."""
    if why := query.why_not():
        raise Failure(f"no database can be made: {why}")
    import sqlite3  # a Python may be built without

    size, count = fragmented_file.file_bytes(step, target.capacity_bytes), rows(step, target.capacity_bytes)
    if not count:
        raise Failure(f"a database of {step['percent']}% has {size} bytes, too few for {INNER} pages of {PAGE_BYTES}")
    room = Room(target)
    files.make_room(target.mounts, step["generation"])
    path = files.path_of(target.mounts, step["generation"], 0)
    filling = random.Random(step["seed"]).randbytes(FILLING_BYTES)

    def made() -> Iterator[tuple[int, bytes]]:
        for index, number in enumerate(numbers(step, count)):
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
    if there > size or extents > contended_files.MOST_EXTENTS:
        raise Failure(f"{path} has {there} bytes, of {size} that were kept for it, and lies in {extents} extents")
    return {
        "files": 1,
        "bytes": there,
        "extents": extents,
        "rows": count,
        "sum": sum(numbers(step, count)),
        "length": count * FILLING_BYTES,
        "sqlite": sqlite3.sqlite_version,
    }


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


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """It is there; its size is SQLite's business."""
    there[step["generation"], 0] = None


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """A generation of one file."""
    size = fragmented_file.file_bytes(step, capacity_bytes)
    shares.append(filled(step["generation"], size, 1, capacity_bytes, step["percent"]))
