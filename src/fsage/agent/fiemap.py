"""Extents of a file, asked from the kernel (FS_IOC_FIEMAP, linux/fiemap.h)."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import NamedTuple

FS_IOC_FIEMAP = 0xC020660B
FIEMAP_FLAG_SYNC = 0x1
FIEMAP_EXTENT_LAST = 0x1
FIEMAP_EXTENT_UNKNOWN = 0x2  # not placed yet
FIEMAP_EXTENT_UNWRITTEN = 0x800
HEADER = struct.Struct("=QQLLLL")
EXTENT = struct.Struct("=QQQQQLLLL")
BATCH = 128


class Extent(NamedTuple):
    """One run of a file on its device; offsets and length in bytes."""

    logical: int
    physical: int
    length: int
    unwritten: bool


def extents(path: str | Path, synchronise: bool = True) -> list[Extent]:
    """All extents of `path` that have a place, in logical order; its dirty pages flushed first, unless not wanted.

    Raises OSError.
    """
    found: list[Extent] = []
    asked = FIEMAP_FLAG_SYNC if synchronise else 0
    fd = os.open(path, os.O_RDONLY)
    try:
        start = 0
        while True:
            buffer = bytearray(HEADER.size + BATCH * EXTENT.size)
            HEADER.pack_into(buffer, 0, start, 2**64 - 1 - start, asked, 0, BATCH, 0)
            fcntl.ioctl(fd, FS_IOC_FIEMAP, buffer)
            mapped = HEADER.unpack_from(buffer)[3]
            for i in range(mapped):
                logical, physical, length, _, _, flags, *_ = EXTENT.unpack_from(buffer, HEADER.size + i * EXTENT.size)
                if not flags & FIEMAP_EXTENT_UNKNOWN:
                    found.append(Extent(logical, physical, length, bool(flags & FIEMAP_EXTENT_UNWRITTEN)))
                start = logical + length
                if flags & FIEMAP_EXTENT_LAST:
                    return merged(found)
            if not mapped:
                return merged(found)
    finally:
        os.close(fd)


def merged(pieces: list[Extent]) -> list[Extent]:
    """Neighbours joined where both the file and the device go on: ext4 caps one extent at 128 MiB."""
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
