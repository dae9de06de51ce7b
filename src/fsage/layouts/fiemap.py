"""What lies where on a device, as the kernel tells, and why a device cannot be read.

The kernel tells the extents of a file (FS_IOC_FIEMAP, linux/fiemap.h), and every block of a mounted file system
(FS_IOC_GETFSMAP, linux/fsmap.h; ioctl_getfsmap(2)).
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from itertools import compress
from operator import add, eq
from pathlib import Path
from typing import NamedTuple

from fsage.layouts.fragmentation import Extent, of_file
from fsage.layouts.machine import opened

DENIED = (errno.EACCES, errno.EPERM)


def why_closed(device: str) -> str | None:
    """Why a device cannot be opened for reading; None where it can."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return why(device, error)
    return None


def why(device: str, error: OSError) -> str:
    """Why a device, or what only root may ask of it, is not to be had."""
    elsewhere = f"give the command on the machine itself, or start the container with --device {device}"
    if error.errno in (errno.ENOENT, errno.ENXIO):
        return f"there is no {device} here, as in a container: {elsewhere}"
    if error.errno not in DENIED:
        return f"{device} cannot be read: {error.strerror}"
    if os.geteuid() == 0:
        return f"reading {device} needs root of the machine, which this container withholds: {elsewhere}"
    return f"reading {device} needs root: give the command as root"


FS_IOC_FIEMAP = 0xC020660B
FIEMAP_FLAG_SYNC = 0x1
FIEMAP_EXTENT_LAST = 0x1
FIEMAP_EXTENT_UNKNOWN = 0x2  # not placed yet
FIEMAP_EXTENT_UNWRITTEN = 0x800
HEADER = struct.Struct("=QQLLLL")
EXTENT = struct.Struct("=QQQQQLLLL")
FLAGS_AT = 10  # of the words of 4 bytes
BATCH = 128


class Columns(NamedTuple):
    """Extents in logical order: places in the file, places on the device, lengths, and which are unwritten."""

    logical: list[int]
    physical: list[int]
    length: list[int]
    unwritten: list[bool]


def extents(path: str | Path, synchronise: bool = True) -> list[Extent]:
    """All extents of `path` that have a place, in logical order; its dirty pages flushed first, unless not wanted.

    Raises OSError.
    """
    return list(map(Extent, *columns(path, synchronise)))


def count_extents(path: str | Path) -> int:
    """In how many extents a file lies: two count as one where one follows the other on the device. Raises OSError."""
    return of_file(extents(path)).extents


def columns(path: str | Path, synchronise: bool = True) -> Columns:
    """The same, faster: no object for each extent. Raises OSError."""
    found = Columns([], [], [], [])
    for batch in _records(path, synchronise):
        found.logical.extend(batch.logical)
        found.physical.extend(batch.physical)
        found.length.extend(batch.length)
        found.unwritten.extend(batch.unwritten)
    behind = map(eq, map(add, found.physical, found.length), found.physical[1:])
    if True in behind:
        return Columns(*map(list, zip(*merged(zip(*found)))))
    return found


def address_of(descriptor: int, offset: int) -> int:
    """The place on the device of the byte at `offset` of an open file. Raises OSError where it has none."""
    buffer = bytearray(HEADER.size + EXTENT.size)
    HEADER.pack_into(buffer, 0, offset, 1, 0, 0, 1, 0)
    fcntl.ioctl(descriptor, FS_IOC_FIEMAP, buffer)
    logical, physical, *_ = EXTENT.unpack_from(buffer, HEADER.size)
    if not HEADER.unpack_from(buffer)[3] or logical > offset:
        raise OSError(errno.ENXIO, f"nothing lies at {offset}")
    return int(physical + offset - logical)


def _records(path: str | Path, synchronise: bool) -> Iterator[Columns]:
    """What the kernel returns, a call at a time, without what has no place yet."""
    request_flags = FIEMAP_FLAG_SYNC if synchronise else 0
    with opened(path) as fd:
        start = 0
        while True:
            buffer = bytearray(HEADER.size + BATCH * EXTENT.size)
            HEADER.pack_into(buffer, 0, start, 2**64 - 1 - start, request_flags, 0, BATCH, 0)
            fcntl.ioctl(fd, FS_IOC_FIEMAP, buffer)
            mapped = HEADER.unpack_from(buffer)[3]
            if not mapped:
                return
            records = memoryview(buffer)[HEADER.size : HEADER.size + mapped * EXTENT.size]
            logical, physical, length = (records.cast("Q")[word :: EXTENT.size // 8].tolist() for word in range(3))
            flags = records.cast("I")[FLAGS_AT :: EXTENT.size // 4].tolist()
            start = logical[-1] + length[-1]
            placed = [not flag & FIEMAP_EXTENT_UNKNOWN for flag in flags]
            unwritten = [flag & FIEMAP_EXTENT_UNWRITTEN > 0 for flag in flags]
            if not all(placed):
                logical, physical, length = (list(compress(column, placed)) for column in (logical, physical, length))
                unwritten = list(compress(unwritten, placed))
            yield Columns(logical, physical, length, unwritten)
            if flags[-1] & FIEMAP_EXTENT_LAST:
                return


def merged(pieces: Iterable[tuple[int, int, int, int]]) -> list[Extent]:
    """Join extents that are contiguous in the file and on the device: logical, physical, length, and if unwritten.

    ext4 limits one extent to 128 MiB, and keeps one for each request. There are millions of them: few steps for each.
    """
    joined: list[Extent] = []
    begin = place = size = unwritten = 0
    for logical, physical, length, state in pieces:
        if logical == begin + size and physical == place + size and state == unwritten:
            size += length
            continue
        if size:
            joined.append(Extent(begin, place, size, bool(unwritten)))
        begin = logical
        place = physical
        size = length
        unwritten = state
    if size:
        joined.append(Extent(begin, place, size, bool(unwritten)))
    return joined


FS_IOC_GETFSMAP = 0xC0C0583B
FMR_OF_SPECIAL_OWNER = 0x10
FMR_OF_LAST = 0x20
FMR_OWN_FREE = 1
XFS_DEV_DATA = 1  # in place of its number, where the real-time section is on the same device (Linux 6.15)
FSMAP_HEADER = struct.Struct("=4L6Q")
RECORD = struct.Struct("=2L4Q3Q")  # device, flags, physical, owner, offset, length, reserved
FSMAP_BATCH = 1024


def free_extents(mount: Path) -> Iterator[tuple[int, int]]:
    """Start and length in bytes of every free extent of the main device, ascending. Raises OSError."""
    for start, length, is_free in _mapped(mount):
        if is_free:
            yield start, length


def mapped_bytes(mount: Path) -> int:
    """Where the last extent of the main device ends, free or not. Raises OSError."""
    return max((start + length for start, length, _ in _mapped(mount)), default=0)


def _mapped(mount: Path) -> Iterator[tuple[int, int, bool]]:
    """Start, length and whether it is free, of every extent of the main device.

    Of XFS this is the allocator's own tree as it is in memory, whatever has reached the device. Devices come by their
    numbers, so an external log or a real-time device may come before the main one; they are left out.
    """
    with opened(mount) as fd:
        own = (os.fstat(fd).st_dev, XFS_DEV_DATA)
        highest = RECORD.pack(*[2**32 - 1] * 2, *[2**64 - 1] * 3, 0, 0, 0, 0)
        low = bytes(RECORD.size)
        while True:
            buffer = bytearray(
                FSMAP_HEADER.pack(0, 0, FSMAP_BATCH, 0, *[0] * 6) + low + highest + bytes(FSMAP_BATCH * RECORD.size)
            )
            fcntl.ioctl(fd, FS_IOC_GETFSMAP, buffer)
            entries = FSMAP_HEADER.unpack_from(buffer)[3]
            if not entries:
                return
            first = FSMAP_HEADER.size + 2 * RECORD.size
            for at in range(first, first + entries * RECORD.size, RECORD.size):
                device, flags, physical, owner, _, length, *_ = RECORD.unpack_from(buffer, at)
                if device in own:
                    yield physical, length, bool(flags & FMR_OF_SPECIAL_OWNER and owner == FMR_OWN_FREE)
            if flags & FMR_OF_LAST:
                return
            low = bytes(buffer[at : at + RECORD.size])  # the next call goes on behind this record
