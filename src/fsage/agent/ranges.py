"""Ranges of a file put into one piece each by the file system's own call, which nobody can catch halfway.

What is in one piece already stays where it is. Each call moves or exchanges extents under the file system's journal, or
writes them anew where data is never overwritten (btrfs): killed at any moment, the file holds what it held. The donor
of new blocks is a file without a name, which goes with whoever made it. Formats: Linux' fs/ext4/ext4.h,
fs/xfs/libxfs/xfs_fs.h and include/uapi/linux/btrfs.h.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fsage.agent import caches
from fsage.agent.errors import Failure, Refusal
from fsage.agent.evidence import fiemap, fragmentation
from fsage.agent.evidence.fiemap import Extent
from fsage.agent.evidence.fragmentation import Fragmentation

BLOCK_BYTES = 4096
COPY_BYTES = 1 << 20
MOVE_EXT, MOVE = 0xC028660F, struct.Struct("=IIQQQQ")  # reserved, donor's descriptor, begins of both, length, moved
EXCHANGE_RANGE, EXCHANGE, DSYNC = 0x40285881, struct.Struct("=iIQQQQ"), 1 << 1
DEFRAG_RANGE, DEFRAG, START_IO = 0x40309410, struct.Struct("=QQQII4I"), 2
LONGEST_BYTES = 128 << 20  # of a btrfs extent

Range = tuple[int, int]  # first byte, and the one after the last


class Call(NamedTuple):
    """What moves one range: its name, what it does (file, donor, range), and whether it takes a donor."""

    name: str
    move: Callable[[int, int, Range], None]
    donor: bool


def hot(size: int, hot_bytes: int, every_bytes: int) -> list[Range]:
    """The ranges of a file of which the first `hot_bytes` of each `every_bytes` are read."""
    return [(begin, min(begin + hot_bytes, size)) for begin in range(0, size, every_bytes)]


def defragment(path: Path, filesystem: str, ranges: Sequence[Range], time_limit_s: float) -> dict[str, Any]:
    """Put each range that lies in pieces into one.

    Returns the keys of fsage.agent.defragment.defragment except `files`, and ranges, ranges_moved, range_bytes,
    `ranges_before` and `ranges_after` (extents of the ranges, added up). Raises Refusal where the file system or the
    kernel has no such call, and Failure.
    """
    call, began, left = _call_of(filesystem), time.monotonic(), []
    moved = 0
    try:
        caches.give_up(path)
        before = fiemap.extents(path)
        descriptor = os.open(path, os.O_RDWR)
        try:
            for one in ranges:
                if not _within(before, one).excess:
                    continue
                if time.monotonic() - began > time_limit_s:
                    left.append(f"{path}: from byte {one[0]} on not begun, the time was over")
                    break
                why = _move(call, path, descriptor, one, _within(before, one).extents)
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
            raise Refusal(_lacking(filesystem, call)) from error
        raise Failure(f"{call.name} of {path}: {error.strerror}") from error
    return {
        "filesystem": filesystem,
        "tool": call.name,
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
        "ranges_before": sum(_within(before, one).extents for one in ranges),
        "ranges_after": sum(_within(after, one).extents for one in ranges),
    }


def _within(extents: Sequence[Extent], one: Range) -> Fragmentation:
    """The fragmentation of a range of a file."""
    begin, end = one
    inside = []
    for extent in extents:
        first, last = max(extent.logical, begin), min(extent.logical + extent.length, end)
        if first < last:
            place = extent.physical + first - extent.logical
            inside.append(Extent(first, place, last - first, extent.unwritten))
    return fragmentation.of_file(inside)


def _move(call: Call, path: Path, descriptor: int, one: Range, extents: int) -> str | None:
    """Move one range; why it was not, where free space has nothing better. Raises OSError."""
    if not call.donor:
        call.move(descriptor, -1, one)
        return None
    begin = one[0]
    length = -(-(one[1] - begin) // BLOCK_BYTES) * BLOCK_BYTES
    donor = os.open(path.parent, os.O_RDWR | os.O_TMPFILE, 0o600)
    try:
        os.posix_fallocate(donor, begin, length)
        offered = fragmentation.of_file(fiemap.extents(f"/proc/self/fd/{donor}")).extents
        if offered >= extents:
            return f"bytes {begin} to {one[1]} stay in {extents} extents: free space would give {offered}"
        call.move(descriptor, donor, (begin, begin + length))
    finally:
        os.close(donor)
    return None


def _ext4(descriptor: int, donor: int, one: Range) -> None:
    """The kernel copies what the range holds into the donor's blocks, and exchanges the extents of both."""
    begin, end = one[0] // BLOCK_BYTES, one[1] // BLOCK_BYTES
    while begin < end:
        given = bytearray(MOVE.pack(0, donor, begin, begin, end - begin, 0))
        fcntl.ioctl(descriptor, MOVE_EXT, given)
        moved = MOVE.unpack(given)[-1]
        if not moved:
            raise OSError(errno.EIO, f"no block was moved from block {begin} on")
        begin += moved


def _xfs(descriptor: int, donor: int, one: Range) -> None:
    """What the range holds is copied into the donor; then the kernel exchanges the extents of both, all or none.

    Nobody else may write to the file meanwhile: it is the target's, which one run holds.
    """
    begin, end = one
    size = os.fstat(descriptor).st_size
    for offset in range(begin, end, COPY_BYTES):
        data = os.pread(descriptor, min(COPY_BYTES, end - offset), offset)
        os.pwrite(donor, data, offset)
    os.ftruncate(donor, min(end, size))
    os.fsync(donor)
    fcntl.ioctl(descriptor, EXCHANGE_RANGE, EXCHANGE.pack(donor, 0, begin, begin, min(end, size) - begin, DSYNC))


def _btrfs(descriptor: int, donor: int, one: Range) -> None:
    """The file system writes the range into new extents."""
    begin, end = one
    fcntl.ioctl(descriptor, DEFRAG_RANGE, DEFRAG.pack(begin, end - begin, START_IO, LONGEST_BYTES, 0, 0, 0, 0, 0))


CALLS = {
    "ext4": Call("EXT4_IOC_MOVE_EXT", _ext4, True),
    "xfs": Call("XFS_IOC_EXCHANGE_RANGE", _xfs, True),
    "btrfs": Call("BTRFS_IOC_DEFRAG_RANGE", _btrfs, False),
}


def _call_of(filesystem: str) -> Call:
    call = CALLS.get(filesystem)
    if not call:
        raise Refusal(f"{filesystem} has no call that moves a range of a file; {', '.join(CALLS)} have")
    return call


def _lacking(filesystem: str, call: Call) -> str:
    wants = {
        "xfs": "it wants Linux 6.10 and a file system made with exchange-range (mkfs.xfs -i exchange=1, xfsprogs 6.10)"
    }.get(filesystem, "the kernel refuses it")
    return f"{call.name} is not to be had on {os.uname().nodename} (Linux {os.uname().release}): {wants}"
