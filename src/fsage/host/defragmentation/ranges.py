"""Ranges of a file made contiguous by the file system's own call, each atomically.

A contiguous range stays where it is. Each call moves or exchanges extents under the file system's journal; btrfs writes
them anew, and never overwrites data. So a kill at any moment leaves the content as it was. The donor of new blocks is a
file without a name, which ends with its process. The calls are those of fsage.host.filesystems.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path

from fsage.host.stores import fiemap, filesystems
from fsage.host.stores.filesystem import Mover, Range
from fsage.host.system import caches
from fsage.model import filesystems as model
from fsage.model.errors import Failure, Refusal
from fsage.model.evidence import fragmentation
from fsage.model.evidence.fragmentation import Extent, Fragmentation

BLOCK_BYTES = 4096


def hot(size: int, hot_bytes: int, every_bytes: int) -> list[Range]:
    """The ranges of a file of which the first `hot_bytes` of each `every_bytes` are read."""
    return [(begin, min(begin + hot_bytes, size)) for begin in range(0, size, every_bytes)]


def defragment(path: Path, filesystem: str, ranges: Sequence[Range], time_limit_s: float) -> dict[str, object]:
    """Make each fragmented range contiguous.

    Returns the keys of fsage.host.defragmentation.defragment except `files`, and ranges, ranges_moved, range_bytes,
    `ranges_before` and `ranges_after` (extents of the ranges, added up). Raises Refusal where the file system or the
    kernel has no such call, and Failure.
    """
    mover = _mover_of(filesystem)
    began = time.monotonic()
    left = []
    moved = 0
    try:
        caches.give_up(path)
        before = fiemap.extents(path)
        descriptor = os.open(path, os.O_RDWR)
        try:
            for part in ranges:
                if not _within(before, part).excess:
                    continue
                if time.monotonic() - began > time_limit_s:
                    left.append(f"{path}: from byte {part[0]} on not begun, the time was over")
                    break
                why = _move(mover, path, descriptor, part, _within(before, part).extents)
                if why:
                    left.append(f"{path}: {why}")
                else:
                    moved += 1
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        after = fiemap.extents(path)
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP):
            raise Refusal(_lacking(mover)) from error
        raise Failure(f"{mover.name} of {path}: {error.strerror}") from error
    return {
        "filesystem": filesystem,
        "tool": mover.name,
        "version": f"Linux {os.uname().release}",
        "time_limit_s": time_limit_s,
        "seconds": time.monotonic() - began,
        "before": fragmentation.of_file(before).summary(),
        "after": fragmentation.of_file(after).summary(),
        "moved_bytes": fragmentation.moved_bytes(before, after),
        "left": left,
        "ranges": len(ranges),
        "ranges_moved": moved,
        "range_bytes": sum(end - begin for begin, end in ranges),
        "ranges_before": sum(_within(before, part).extents for part in ranges),
        "ranges_after": sum(_within(after, part).extents for part in ranges),
    }


def _within(extents: Sequence[Extent], part: Range) -> Fragmentation:
    """The fragmentation of a range of a file."""
    begin, end = part
    inside = []
    for extent in extents:
        first = max(extent.logical, begin)
        last = min(extent.logical + extent.length, end)
        if first < last:
            place = extent.physical + first - extent.logical
            inside.append(Extent(first, place, last - first, extent.unwritten))
    return fragmentation.of_file(inside)


def _move(mover: Mover, path: Path, descriptor: int, part: Range, extents: int) -> str | None:
    """Move a range; why it was not moved, where free space has no longer run. Raises OSError."""
    if not mover.donor:
        mover.move(descriptor, -1, part)
        return None
    begin = part[0]
    length = -(-(part[1] - begin) // BLOCK_BYTES) * BLOCK_BYTES
    donor = os.open(path.parent, os.O_RDWR | os.O_TMPFILE, 0o600)
    try:
        os.posix_fallocate(donor, begin, length)
        offered = fragmentation.of_file(fiemap.extents(f"/proc/self/fd/{donor}")).extents
        if offered >= extents:
            return f"bytes {begin} to {part[1]} stay in {extents} extents: free space would give {offered}"
        mover.move(descriptor, donor, (begin, begin + length))
    finally:
        os.close(donor)
    return None


def _mover_of(filesystem: str) -> Mover:
    system = filesystems.get(filesystem)
    if not system or not system.mover:
        able = ", ".join(name for name in model.names() if filesystems.named(name).mover)
        raise Refusal(f"{filesystem} has no call that moves a range of a file; {able} have")
    return system.mover


def _lacking(mover: Mover) -> str:
    uname = os.uname()
    return f"{mover.name} is not to be had on {uname.nodename} (Linux {uname.release}): {mover.wants}"
