"""Step `sqlite`: a whole file that is an SQLite database of one table, filled from a seed, for those who ask it.

A row is a number that the seed gives and a filling, four rows to a page, so that whoever sums up the numbers reads each
page. What the sum must be is noted: it follows from the seed alone, SQLite has no part in it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

from fsage.host.evidence import fiemap
from fsage.host.instruments import query
from fsage.host.stores import filesystems
from fsage.host.structure import Work, files
from fsage.host.structure.quota import Quota
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.evidence import fragmentation
from fsage.model.filler import path_of
from fsage.model.structure import Shard, Step
from fsage.studies.iocontrol.host.contended_files import MOST_EXTENTS
from fsage.studies.iocontrol.model import INNER, PAGE_BYTES, Sqlite

FILLING_BYTES = 960
CHECK_EVERY = 4096  # rows


def work(step: Sqlite, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Give the file its blocks at once, and have SQLite fill them; rows, sum and extents are noted."""
    if why := query.unavailable_because():
        raise Failure(f"no database can be made: {why}")
    import sqlite3  # a Python may be built without

    size, count = step.file_bytes(target.capacity_bytes), step.rows(target.capacity_bytes)
    if not count:
        raise Failure(f"a database of {step.percent}% has {size} bytes, too few for {INNER} pages of {PAGE_BYTES}")
    quota = Quota(target)
    files.make_room(target.mounts, step.generation)
    path = path_of(target.mounts, step.generation, 0)
    filling = random.Random(step.seed).randbytes(FILLING_BYTES)

    def made() -> Iterator[tuple[int, bytes]]:
        for index, number in enumerate(step.numbers(count)):
            if index % CHECK_EVERY == 0:
                check_lease()
            yield number, filling

    try:
        with filesystems.one_cpu():
            _keep(quota, path, size)
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
            end = _end(path)
    except (OSError, sqlite3.Error) as error:
        raise Failure(f"making the database {path} of {size} bytes: {error}") from error
    extents = fragmentation.of_file(fiemap.extents(path)).extents
    if end > size or extents > MOST_EXTENTS:
        raise Failure(f"{path} has {end} bytes in {extents} extents; {size} contiguous bytes were reserved for it")
    noted: Made = {
        "bytes": end,
        "extents": extents,
        "rows": count,
        "sum": sum(step.numbers(count)),
        "length": count * FILLING_BYTES,
        "sqlite": sqlite3.sqlite_version,
    }
    return Work(1, {**noted})


class Made(TypedDict):
    """What is noted of the database: its size, how it lies, and what a query must answer."""

    bytes: int
    extents: int
    rows: int
    sum: int
    length: int
    sqlite: str


def _keep(quota: Quota, path: Path, size: int) -> None:
    """An empty file for which so many bytes are kept, in one piece if there is one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        quota.keep(descriptor, path, size)
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
