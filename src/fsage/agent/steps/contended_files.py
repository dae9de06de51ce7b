"""Step `contended_files`: a file in pieces and two whole ones of the same size, for those who share a device to read.

Keys: generation, percent (each file's share of the capacity; together they take four times that), piece_bytes. File 0
lies in pieces, files 2 and 3 are whole. Of file 1 every other piece is a hole: while nothing else was free, file 0 got
its blocks in them. So it is in pieces whatever an allocator likes best. What is read is written, for a read of blocks
that were never written reads nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fsage.agent import caches, filesystems
from fsage.agent.errors import Failure
from fsage.agent.evidence import fiemap, fragmentation
from fsage.agent.limits import SLACK_BYTES
from fsage.agent.room import Room
from fsage.agent.steps import fragmented_file, interleave
from fsage.agent.steps.populate import filled
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False
IN_PIECES, BETWEEN, WHOLE, OTHER_WHOLE = range(4)
LEAST_PERCENT = 80
"""Of the extents asked. A file system keeps room for its own books (ext4: 16 MiB), where the file's first MiB lie."""
MOST_EXTENTS = 64
"""Of a whole file: an allocator that goes round metadata leaves a few, which is far from pieces of 64 KiB."""


def describe(step: dict) -> str:
    """The step in words."""
    return f"make a file in pieces of {step['piece_bytes']} bytes and two whole ones, of {step['percent']}% each"


def file_bytes(step: dict, capacity_bytes: int) -> int:
    """The size of each, whole MiB."""
    return fragmented_file.file_bytes(step, capacity_bytes)


def between_bytes(step: dict, size: int) -> int:
    """The length of file 1, whose holes hold file 0 and what the file system notes of both."""
    piece = step["piece_bytes"]
    books = 2 * interleave.MAP_BYTES * (size // piece) + SLACK_BYTES
    return 2 * (size + -(-books // piece) * piece)


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Give file 0 the holes of file 1, the others their blocks at once; then write those that are read."""
    if len(target.mounts) > 1:
        raise Failure(f"target {target.name} has {len(target.mounts)} stores: its readers need one; see stores")
    size, generation = file_bytes(step, target.capacity_bytes), step["generation"]
    if size <= step["piece_bytes"]:
        raise Failure(f"a file of {step['percent']}% has {size} bytes, not more than a piece of {step['piece_bytes']}")
    room = Room(target)
    room.must_hold(2 * size + between_bytes(step, size), describe(step))
    files.make_room(target.mounts, generation)
    paths = [files.path_of(target.mounts, generation, index) for index in range(4)]
    filler = files.path_of(target.mounts, generation, 4)
    try:
        with filesystems.one_cpu():
            for path in paths[WHOLE:]:
                room.fallocate(path, size)
            room.fallocate(paths[BETWEEN], between_bytes(step, size))
            room.rest(filler)
            _punch(paths[BETWEEN], between_bytes(step, size), step["piece_bytes"], check_lease)
            caches.flush(target.mounts[0])  # what was freed is free only then
            room.inspect()
            room.fallocate(paths[IN_PIECES], size)
            filler.unlink()
            for path in (paths[IN_PIECES], *paths[WHOLE:]):
                _write_over(path, size)
    except OSError as error:
        raise Failure(f"making the readers' files of {size} bytes in {paths[0].parent}: {error.strerror}") from error
    extents = [fragmentation.of_file(fiemap.extents(paths[index])).extents for index in (IN_PIECES, WHOLE, OTHER_WHOLE)]
    wanted = size // step["piece_bytes"]
    least, most = wanted * LEAST_PERCENT // 100, wanted * (100 + fragmented_file.MORE_PERCENT) // 100
    if not least <= extents[0] <= most or max(extents[1:]) > MOST_EXTENTS:
        raise Failure(
            f"{paths[0]} lies in {extents[0]} extents, asked were {wanted} of {step['piece_bytes']} bytes; the whole "
            f"files lie in {extents[1]} and {extents[2]}"
        )
    return {"files": 4, "extents": extents[0], "whole_extents": extents[1:], "piece_bytes": step["piece_bytes"]}


def _punch(path: Path, size: int, piece_bytes: int, check_lease: Callable[[], None]) -> None:
    """Make every other piece of a file a hole."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        for offset in range(0, size, 2 * piece_bytes):
            check_lease()
            files.allocate(descriptor, files.KEEP_SIZE | files.PUNCH_HOLE, offset, piece_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_over(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT)
    try:
        files.fill(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """All four are there."""
    size = file_bytes(step, capacity_bytes)
    there.update(
        {(step["generation"], index): between_bytes(step, size) if index == BETWEEN else size for index in range(4)}
    )


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """A generation of four files."""
    size = 4 * file_bytes(step, capacity_bytes)  # file 1 less its holes
    shares.append(filled(step["generation"], size, 4, capacity_bytes, 4 * step["percent"]))
