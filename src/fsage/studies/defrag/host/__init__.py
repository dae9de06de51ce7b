"""The steps of states of defragmentation: a file in extents, a run of free blocks, and the tool that joins them.

File 0 is the one that is measured: it is written, for a read of blocks that were never written reads nothing. File 1
has its pieces between those of file 0. File 2 reserves a run of blocks, which is set free when all else is there.
What a file holds is the same before and after it is defragmented, or the step fails.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from fsage.api.host import Call, Quota, Target, Work, kernel, one_cpu
from fsage.api.model import Failure, Json, Refusal, Shard, Step, path_of
from fsage.layouts.fiemap import count_extents

from ..model import FILES, HOT, RESERVED, Defragment, FragmentedFile, FreeReservedRun
from . import defragmentation

MORE_PERCENT = 5
"""An allocator may cut a piece, such as at the end of a block group: so many percent more extents are allowed."""


def fragmented_file(step: FragmentedFile, target: Target, done: list[Step], shard: Shard, check_lease: Call) -> Work:
    """Give the two files their blocks in turns, then write the first."""
    size = step.file_bytes(target.capacity_bytes)
    generation = step.generation
    piece = step.piece_bytes(target.capacity_bytes)
    if why := step.unavailable_because(target.capacity_bytes):
        raise Failure(why)
    quota = Quota(target)
    quota.must_hold(FILES * size, step.describe())
    quota.make_room(generation)
    paths = [path_of(target.mounts, generation, index) for index in (0, 1)]
    cuts = [number * piece for number in range(step.extents)] + [size]
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT | os.O_NOFOLLOW
    with one_cpu(), contextlib.ExitStack() as opened:
        descriptors = [opened.enter_context(kernel.opened(path, flags)) for path in paths]
        try:
            for begin, end in zip(cuts, cuts[1:]):
                check_lease()
                for descriptor, path in zip(descriptors, paths):
                    quota.extend(descriptor, path, begin, end - begin)
            quota.fallocate(path_of(target.mounts, generation, RESERVED), size)
            quota.fill(descriptors[0], size)
            os.fsync(descriptors[0])
        except OSError as error:
            raise Failure(f"making {paths[0]} of {size} bytes in extents of {piece}: {error.strerror}") from error
    extents = count_extents(paths[0])
    if not step.extents <= extents <= step.extents * (100 + MORE_PERCENT) // 100:
        raise Failure(f"{paths[0]} has {extents} extents, requested were {step.extents} of {piece} bytes")
    return Work(FILES, {"extents": extents, "piece_bytes": piece})


def free_reserved_run(step: FreeReservedRun, target: Target, done: list[Step], shard: Shard, check_lease: Call) -> Work:
    """Delete the file that reserved it."""
    path = path_of(target.mounts, step.generation, RESERVED)
    gone = path.exists()
    path.unlink(missing_ok=True)
    return Work(int(gone))


SHOWN = 5


def defragment(step: Defragment, target: Target, done: list[Step], shard: Shard, check_lease: Call) -> Work:
    """Defragment; notes: tool, extents, moved bytes, what is still fragmented, and a checksum of the file."""
    if not target.filesystem:
        raise Failure(f"target {target.name} is a directory: its file system is not known, so nothing defragments it")
    path = path_of(target.mounts, step.generation, 0)
    before = checksum(path)
    try:
        moved = _by_scope(step, target, path, target.filesystem)
    except Refusal as why:
        if step.scope != HOT:
            raise
        return Work(0, {"unsupported": str(why)})
    target.remount()  # what is compared comes from the device
    if checksum(path) != before:
        raise Failure(f"{path} has another content after {moved['tool']} than before: sha256 was {before}")
    changed = len(moved.pop("files", [path]))
    return Work(changed, {**moved, "left": moved["left"][:SHOWN], "sha256": before})


def _by_scope(step: Defragment, target: Target, path: Path, filesystem: str) -> Json:
    """Defragment what the step names. Raises Refusal, Failure."""
    if step.scope == HOT:
        assert step.hot_bytes and step.every_bytes
        hot = defragmentation.hot(path.stat().st_size, step.hot_bytes, step.every_bytes)
        return defragmentation.defragment_ranges(path, filesystem, hot, step.time_limit_s)
    system = target.system
    if step.scope == "file" and system and system.mover and not system.defragmenter:
        return defragmentation.defragment_ranges(path, filesystem, [(0, path.stat().st_size)], step.time_limit_s)
    where = path if step.scope == "file" else target.mounts[0] / "filler"
    return defragmentation.defragment([where], filesystem, step.time_limit_s)


def checksum(path: Path) -> str:
    """SHA-256 of what a file holds, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
