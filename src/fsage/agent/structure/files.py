"""What the kinds of step share: where files lie, how they get their blocks, and the number that decides over each."""

from __future__ import annotations

import hashlib
import mmap
import os
from ctypes import CDLL, c_int64, get_errno
from pathlib import Path

from fsage.agent import places

LIBC = CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE = 1, 2  # fallocate(2)
WRITE_BYTES = 1 << 20


def fate(seed: int, generation: int, index: int) -> float:
    """The uniform number u in [0, 1) that decides over one file: fragment deletes it when u < BB/100."""
    key = f"{seed}:{generation}:{index}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big") / 2**56


def path_of(mounts: list[Path], generation: int, index: int) -> Path:
    """Where file `index` lies: round robin over the stores."""
    return mounts[index % len(mounts)] / "filler" / f"g{generation}" / f"{index:07d}"


def make_room(mounts: list[Path], generation: int) -> None:
    """Make the directories of a generation. No link on the way to them is followed, and none from a file in them."""
    for mount in mounts:
        path = mount / "filler" / f"g{generation}"
        with places.opened(mount) as store, places.inside(store, "filler", path.parent, places.PRIVATE) as filler:
            places.make_in(filler, path)


def fallocate(path: Path, size: int) -> None:
    """Give a file its blocks without writing them."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        os.posix_fallocate(fd, 0, size)
    finally:
        os.close(fd)


def allocate(descriptor: int, mode: int, offset: int, size: int) -> None:
    """fallocate(2), which Python has without modes only. Raises OSError."""
    if LIBC.fallocate(descriptor, mode, c_int64(offset), c_int64(size)):
        raise OSError(get_errno(), os.strerror(get_errno()))


def write(path: Path, size: int) -> None:
    """Write a file past the cache; what it held is cut off first."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT | os.O_NOFOLLOW, 0o600)
    try:
        fill(fd, size)
    finally:
        os.close(fd)


def fill(fd: int, size: int) -> None:
    """Write `size` random bytes past the cache, over the blocks that are there."""
    with mmap.mmap(-1, WRITE_BYTES) as buffer:  # page-aligned, as O_DIRECT asks
        buffer.write(os.urandom(4096) * (WRITE_BYTES // 4096))
        with memoryview(buffer) as whole:
            done = 0
            while done < size:
                done += os.write(fd, whole[: min(WRITE_BYTES, size - done)])
