"""Extents of a file, read from the kernel (FS_IOC_FIEMAP, linux/fiemap.h)."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from fsage.model.evidence.fragmentation import Extent

FS_IOC_FIEMAP = 0xC020660B
FIEMAP_FLAG_SYNC = 0x1
FIEMAP_EXTENT_LAST = 0x1
FIEMAP_EXTENT_UNKNOWN = 0x2  # not placed yet
FIEMAP_EXTENT_UNWRITTEN = 0x800
HEADER = struct.Struct("=QQLLLL")
EXTENT = struct.Struct("=QQQQQLLLL")
BATCH = 128


def extents(path: str | Path, synchronise: bool = True) -> list[Extent]:
    """All extents of `path` that have a place, in logical order; its dirty pages flushed first, unless not wanted.

    Raises OSError.
    """
    return merged(
        [
            Extent(logical, physical, length, bool(flags & FIEMAP_EXTENT_UNWRITTEN))
            for logical, physical, length, flags in _records(path, synchronise)
            if not flags & FIEMAP_EXTENT_UNKNOWN
        ]
    )


def address_of(descriptor: int, offset: int) -> int:
    """The place on the device of the byte at `offset` of an open file. Raises OSError where it has none."""
    buffer = bytearray(HEADER.size + EXTENT.size)
    HEADER.pack_into(buffer, 0, offset, 1, 0, 0, 1, 0)
    fcntl.ioctl(descriptor, FS_IOC_FIEMAP, buffer)
    logical, physical, *_ = EXTENT.unpack_from(buffer, HEADER.size)
    if not HEADER.unpack_from(buffer)[3] or logical > offset:
        raise OSError(errno.ENXIO, f"nothing lies at {offset}")
    return int(physical + offset - logical)


def _records(path: str | Path, synchronise: bool) -> Iterator[tuple[int, int, int, int]]:
    """Logical offset, physical offset, length and flags of each extent, as the kernel returns them."""
    request_flags = FIEMAP_FLAG_SYNC if synchronise else 0
    fd = os.open(path, os.O_RDONLY)
    try:
        start = 0
        while True:
            buffer = bytearray(HEADER.size + BATCH * EXTENT.size)
            HEADER.pack_into(buffer, 0, start, 2**64 - 1 - start, request_flags, 0, BATCH, 0)
            fcntl.ioctl(fd, FS_IOC_FIEMAP, buffer)
            mapped = HEADER.unpack_from(buffer)[3]
            for i in range(mapped):
                logical, physical, length, _, _, flags, *_ = EXTENT.unpack_from(buffer, HEADER.size + i * EXTENT.size)
                yield logical, physical, length, flags
                start = logical + length
                if flags & FIEMAP_EXTENT_LAST:
                    return
            if not mapped:
                return
    finally:
        os.close(fd)


def merged(pieces: list[Extent]) -> list[Extent]:
    """Join extents that are contiguous in the file and on the device: ext4 limits one extent to 128 MiB."""
    joined: list[Extent] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if (
            last
            and last.logical + last.length == piece.logical
            and last.physical + last.length == piece.physical
            and last.unwritten == piece.unwritten
        ):
            joined[-1] = last._replace(length=last.length + piece.length)
        else:
            joined.append(piece)
    return joined
