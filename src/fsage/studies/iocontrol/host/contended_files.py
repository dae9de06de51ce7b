"""Step `contended_files`: a file in pieces and two whole ones of the same size, for those who share a device to read.

File 0 lies in pieces, files 2 and 3 are whole. Of file 1 every other piece is a hole: while nothing else was free, file
0 got its blocks in them. So it is in pieces whatever an allocator likes best. What is read is written, for a read of
blocks that were never written reads nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fsage.host.evidence import fiemap
from fsage.host.stores import filesystems
from fsage.host.structure import Work, files
from fsage.host.structure.quota import Quota
from fsage.host.system import caches
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.evidence import fragmentation
from fsage.model.filler import path_of
from fsage.model.structure import Shard, Step
from fsage.studies.defrag.host.fragmented_file import MORE_PERCENT
from fsage.studies.iocontrol.model import BETWEEN, FILES, IN_PIECES, OTHER_WHOLE, WHOLE, ContendedFiles

LEAST_PERCENT = 80
"""Of the requested extents. A file system reserves space for its accounting (ext4: 16 MiB), where the file begins."""
MOST_EXTENTS = 64
"""Of a whole file: an allocator that goes round metadata leaves a few, which is far from pieces of 64 KiB."""


def work(step: ContendedFiles, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Give file 0 the holes of file 1, the others their blocks at once; then write those that are read."""
    if len(target.mounts) > 1:
        raise Failure(f"target {target.name} has {len(target.mounts)} stores: contended files need one; see stores")
    size, generation = step.file_bytes(target.capacity_bytes), step.generation
    if size <= step.piece_bytes:
        raise Failure(f"a file of {step.percent}% has {size} bytes, not more than a piece of {step.piece_bytes}")
    quota = Quota(target)
    quota.must_hold(2 * size + step.between_bytes(size), step.describe())
    files.make_room(target.mounts, generation)
    paths = [path_of(target.mounts, generation, index) for index in range(FILES)]
    filler = path_of(target.mounts, generation, FILES)
    try:
        with filesystems.one_cpu():
            for path in paths[WHOLE:]:
                quota.fallocate(path, size)
            quota.fallocate(paths[BETWEEN], step.between_bytes(size))
            quota.rest(filler)
            _punch(paths[BETWEEN], step.between_bytes(size), step.piece_bytes, check_lease)
            caches.flush(target.mounts[0])  # what was freed is free only then
            quota.inspect()
            quota.fallocate(paths[IN_PIECES], size)
            filler.unlink()
            for path in (paths[IN_PIECES], *paths[WHOLE:]):
                _write_over(path, size)
    except OSError as error:
        raise Failure(f"making the contended files of {size} bytes in {paths[0].parent}: {error.strerror}") from error
    extents = [fragmentation.of_file(fiemap.extents(paths[index])).extents for index in (IN_PIECES, WHOLE, OTHER_WHOLE)]
    wanted = size // step.piece_bytes
    least, most = wanted * LEAST_PERCENT // 100, wanted * (100 + MORE_PERCENT) // 100
    if not least <= extents[0] <= most or max(extents[1:]) > MOST_EXTENTS:
        raise Failure(
            f"{paths[0]} has {extents[0]} extents, requested were {wanted} of {step.piece_bytes} bytes; the "
            f"contiguous files have {extents[1]} and {extents[2]}"
        )
    return Work(FILES, {"extents": extents[0], "whole_extents": extents[1:], "piece_bytes": step.piece_bytes})


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
