"""Files that are mostly holes: copied without their holes, by sharing blocks where the file system can (reflink)."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from ctypes import c_int64
from pathlib import Path

from fsage.base import Failure
from fsage.host.system import libc

FICLONERANGE = 0x4020940D
RANGE = struct.Struct("=qQQQ")  # linux/fs.h: descriptor, offset, length, offset there
NO_REFLINK = {errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EXDEV}
PUNCH = 1 | 2  # fallocate(2): FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
FIRST_BYTES = 1 << 20
"""What tells a file system, its first superblocks, lies within; it is written last."""
COPY_BYTES = 64 << 20


def clone(source: Path, to: Path) -> None:
    """Have a file hold what another of its size does, its beginning last: blocks are shared where they can be.

    Killed before its end, it leaves a file without a file system. Raises Failure, OSError.
    """
    own = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    new = os.open(to, os.O_RDWR | os.O_NOFOLLOW)
    try:
        size = os.fstat(own).st_size
        if size != os.fstat(new).st_size:
            raise Failure(f"{source} has {size} bytes, and {to} another number: nothing was copied")
        _punch(new, 0, FIRST_BYTES)
        os.fsync(new)
        for begin, end in ((FIRST_BYTES, size), (0, FIRST_BYTES)):
            try:
                fcntl.ioctl(new, FICLONERANGE, RANGE.pack(own, begin, end - begin, begin))
            except OSError as error:
                if error.errno not in NO_REFLINK:
                    raise
                _copy(own, new, begin, end)
            os.fsync(new)
    finally:
        os.close(own)
        os.close(new)


def _copy(source: int, to: int, begin: int, end: int) -> None:
    """Copy what a sparse file holds in a range; the rest of it becomes holes."""
    _punch(to, begin, end)
    for at, stop in data_ranges(source, begin, end):
        while at < stop:
            block = os.pread(source, min(COPY_BYTES, stop - at), at)
            at += os.pwrite(to, block, at)


def data_ranges(descriptor: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a range that a sparse file holds."""
    while begin < end:
        try:
            begin = os.lseek(descriptor, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # none is left
                return
            raise
        stop = min(end, os.lseek(descriptor, begin, os.SEEK_HOLE))
        if begin < stop:
            yield begin, stop
        begin = stop


def _punch(descriptor: int, begin: int, end: int) -> None:
    if libc.library.fallocate(descriptor, PUNCH, c_int64(begin), c_int64(end - begin)):
        raise libc.error()
