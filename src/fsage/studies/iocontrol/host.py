"""The steps of states of I/O control: what those read who share a device.

`contended_files`: file 0 is fragmented, files 2 and 3 are contiguous. Every other piece of file 1 is a hole, where
file 0 got its blocks while nothing else was free. So it is in pieces whatever an allocator prefers. Where a block has
no place before it is written (F2FS), files 0 and 1 are written in turns instead, a piece at a time.

`sqlite`: a contiguous file that is a database of one table, filled from a seed: a number and a filling a row, four
rows a page. Whoever sums up the numbers reads each page, and the sum follows from the seed alone.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from fsage.api.host import Call, Quota, Target, Work, caches, kernel, one_cpu
from fsage.api.model import Failure, Shard, Step, in_words, path_of
from fsage.layouts.fiemap import count_extents
from fsage.studies.defrag.host import MORE_PERCENT

from .model import BETWEEN, FILES, IN_PIECES, INNER, OTHER_WHOLE, PAGE_BYTES, WHOLE, ContendedFiles, Sqlite

LEAST_PERCENT = 80
"""Share of the requested extents. A file system reserves space where the file begins (ext4: 16 MiB)."""
MOST_EXTENTS = 64
"""Extents of a contiguous file: an allocator that goes round metadata leaves a few, far from 64 KiB each."""


def contended_files(step: ContendedFiles, target: Target, done: list[Step], shard: Shard, check_lease: Call) -> Work:
    """Give file 0 the holes of file 1, the others their blocks at once; then write those that are read."""
    size = step.file_bytes(target.capacity_bytes)
    generation = step.generation
    if why := step.unavailable_because(target.capacity_bytes):
        raise Failure(why)
    quota = Quota(target)
    quota.must_hold(2 * size + step.between_bytes(size), step.describe())
    quota.make_room(generation)
    paths = [path_of(target.mounts, generation, index) for index in range(FILES)]
    make = _by_writing if target.system and target.system.places_when_written else _by_allocation
    try:
        with one_cpu():
            make(step, target, quota, paths, check_lease)
    except OSError as error:
        raise Failure(f"making the contended files of {size} bytes in {paths[0].parent}: {error.strerror}") from error
    extents = [count_extents(paths[index]) for index in (IN_PIECES, WHOLE, OTHER_WHOLE)]
    wanted = size // step.piece_bytes
    least = wanted * LEAST_PERCENT // 100
    most = wanted * (100 + MORE_PERCENT) // 100
    if not least <= extents[0] <= most or max(extents[1:]) > MOST_EXTENTS:
        raise Failure(
            f"{paths[0]} has {extents[0]} extents, requested were {wanted} of {step.piece_bytes} bytes; the "
            f"contiguous files have {extents[1]} and {extents[2]}"
        )
    return Work(FILES, {"extents": extents[0], "whole_extents": extents[1:], "piece_bytes": step.piece_bytes})


def _by_allocation(step: ContendedFiles, target: Target, quota: Quota, paths: list[Path], check_lease: Call) -> None:
    """Have file 0 fill the holes of file 1 while nothing else is free."""
    size = step.file_bytes(target.capacity_bytes)
    filler = path_of(target.mounts, step.generation, FILES)
    for path in paths[WHOLE:]:
        quota.fallocate(path, size)
    quota.fallocate(paths[BETWEEN], step.between_bytes(size))
    quota.rest(filler)
    _punch(quota, paths[BETWEEN], step.between_bytes(size), step.piece_bytes, check_lease)
    caches.flush(target.mounts[0])  # what was freed is free only then
    quota.inspect()
    quota.fallocate(paths[IN_PIECES], size)
    filler.unlink()
    for path in (paths[IN_PIECES], *paths[WHOLE:]):
        _write_over(quota, path, size)


def _by_writing(step: ContendedFiles, target: Target, quota: Quota, paths: list[Path], check_lease: Call) -> None:
    """Write the whole files one after the other, and then files 0 and 1 in turns; blocks lie as they are written."""
    size = step.file_bytes(target.capacity_bytes)
    for path in paths[WHOLE:]:
        quota.write(path, size)
    in_turns = [paths[IN_PIECES], paths[BETWEEN]]
    quota.in_turns(in_turns, [size, size], step.piece_bytes, "write", check_lease)
    os.truncate(paths[BETWEEN], step.between_bytes(size))
    caches.flush(target.mounts[0])


def _punch(quota: Quota, path: Path, size: int, piece_bytes: int, check_lease: Call) -> None:
    """Make every other piece of a file a hole."""
    with kernel.opened(path, os.O_WRONLY) as descriptor:
        for offset in range(0, size, 2 * piece_bytes):
            check_lease()
            quota.punch(descriptor, offset, piece_bytes)
        os.fsync(descriptor)


def _write_over(quota: Quota, path: Path, size: int) -> None:
    with kernel.opened(path, os.O_WRONLY | os.O_DIRECT) as descriptor:
        quota.fill(descriptor, size)
        os.fsync(descriptor)


FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
FILLING_BYTES = 960
CHECK_EVERY = 4096  # rows


def sqlite(step: Sqlite, target: Target, done: list[Step], shard: Shard, check_lease: Call) -> Work:
    """Give the file its blocks at once, and have SQLite fill them; what a query must answer is noted."""
    try:
        import sqlite3  # a Python may be built without
    except ImportError as why:
        host = os.uname().nodename
        raise Failure(f"no database can be made: {host}: this Python ({sys.executable}) has no module sqlite3") from why

    size = step.file_bytes(target.capacity_bytes)
    count = step.rows(target.capacity_bytes)
    if not count:
        raise Failure(f"a database of {step.percent}% has {size} bytes, too few for {INNER} pages of {PAGE_BYTES}")
    quota = Quota(target)
    quota.make_room(step.generation)
    path = path_of(target.mounts, step.generation, 0)
    filling = random.Random(step.seed).randbytes(FILLING_BYTES)

    def made() -> Iterator[tuple[int, bytes]]:
        for index, number in enumerate(step.numbers(count)):
            if index % CHECK_EVERY == 0:
                check_lease()
            yield number, filling

    try:
        with one_cpu():
            with kernel.opened(path, FRESH) as descriptor:
                quota.keep(descriptor, path, size)  # in one piece if there is one
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
        raise Failure(f"making the database {path} of {size} bytes: {in_words(error)}") from error
    extents = count_extents(path)
    if end > size or extents > MOST_EXTENTS:
        raise Failure(f"{path} has {end} bytes in {extents} extents; {size} contiguous bytes were reserved for it")
    answer = {"rows": count, "sum": sum(step.numbers(count)), "length": count * FILLING_BYTES}
    return Work(1, {"bytes": end, "extents": extents, **answer, "sqlite": sqlite3.sqlite_version})


def _end(path: Path) -> int:
    """Give up what the file does not fill, and write it out; its size."""
    with kernel.opened(path, os.O_RDWR) as descriptor:
        size = os.fstat(descriptor).st_size
        os.fsync(descriptor)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    return size
