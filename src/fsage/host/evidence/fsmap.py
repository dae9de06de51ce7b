"""What a mounted file system says of every block of its device (FS_IOC_GETFSMAP, linux/fsmap.h; ioctl_getfsmap(2))."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

FS_IOC_GETFSMAP = 0xC0C0583B
FMR_OF_SPECIAL_OWNER = 0x10
FMR_OF_LAST = 0x20
FMR_OWN_FREE = 1
HEADER = struct.Struct("=4L6Q")
RECORD = struct.Struct("=2L4Q3Q")  # device, flags, physical, owner, offset, length, reserved
BATCH = 1024


def free_extents(mount: Path) -> Iterator[tuple[int, int]]:
    """Start and length in bytes of every free extent of the main device, ascending. Raises OSError.

    Of XFS this is the allocator's own tree as it is in memory, whatever has reached the device. The first device that
    is mapped is the main one; an external log or a real-time device has another number and is left out.
    """
    fd = os.open(mount, os.O_RDONLY)
    try:
        highest = RECORD.pack(*[2**32 - 1] * 2, *[2**64 - 1] * 3, 0, 0, 0, 0)
        low, main = bytes(RECORD.size), None
        while True:
            buffer = bytearray(HEADER.pack(0, 0, BATCH, 0, *[0] * 6) + low + highest + bytes(BATCH * RECORD.size))
            fcntl.ioctl(fd, FS_IOC_GETFSMAP, buffer)
            entries = HEADER.unpack_from(buffer)[3]
            if not entries:
                return
            first = HEADER.size + 2 * RECORD.size
            for at in range(first, first + entries * RECORD.size, RECORD.size):
                device, flags, physical, owner, _, length, *_ = RECORD.unpack_from(buffer, at)
                main = device if main is None else main
                if flags & FMR_OF_SPECIAL_OWNER and owner == FMR_OWN_FREE and device == main:
                    yield physical, length
            if flags & FMR_OF_LAST:
                return
            low = bytes(buffer[at : at + RECORD.size])  # the next call goes on behind this record
    finally:
        os.close(fd)
