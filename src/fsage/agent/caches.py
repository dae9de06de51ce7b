"""Dropping the page cache, and asking the kernel whether it is gone."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from pathlib import Path

from fsage.agent import privilege
from fsage.agent.errors import Failure

SYS_CACHESTAT = 451  # the same number on every architecture since Linux 6.5
DROP = Path("/proc/sys/vm/drop_caches")
COUNTERS = Path("/proc/vmstat")
_libc = ctypes.CDLL(None, use_errno=True)


class _Range(ctypes.Structure):
    _fields_ = [("off", ctypes.c_uint64), ("len", ctypes.c_uint64)]


class _Stat(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("nr_cache", "nr_dirty", "nr_writeback", "nr_evicted", "nr_recently_evicted")
    ]


def flush(mount: Path) -> None:
    """Write out all that is dirty on one file system (syncfs(2)). Raises OSError."""
    fd = os.open(mount, os.O_RDONLY)
    try:
        if _libc.syncfs(fd):
            raise OSError(ctypes.get_errno(), "syncfs failed", str(mount))
    finally:
        os.close(fd)


def drop(files: list[Path]) -> dict:
    """Flush and drop the caches; return {"seconds", "cached_pages", "method"}.

    `cached_pages` counts the pages of `files` that are still in memory afterwards: a cell whose files are
    still cached must fail, for its read would not reach the device. Without root only these files' own
    pages can be given up (posix_fadvise).
    """
    began = time.monotonic()
    for path in files:
        flush(path)
    if os.access(DROP, os.W_OK) or (os.geteuid() and privilege.why_not() is None):
        method = "drop_caches=3"
        drop_pages()
        if cached := cached_pages(files):  # a page in flight survives the first pass
            drop_pages()
            cached = cached_pages(files)
    else:
        method = "posix_fadvise(DONTNEED)"
        for path in files:
            give_up(path)
        cached = cached_pages(files)
    return {"seconds": time.monotonic() - began, "cached_pages": cached, "method": method}


@privilege.privileged("drop-caches")
def drop_pages() -> None:
    """Have the kernel drop what it may of its caches, once. Raises OSError."""
    DROP.write_text("3\n")


def give_up(path: Path) -> None:
    """Write out one file and give up its pages in memory, so that what reads it next reads the device. Raises OSError.

    Nobody is asked whether they are gone; see `cached_pages`.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def drop_all() -> dict:
    """Flush and drop all of a server's caches, whose files nobody here can name; the kernel's own count must say so.

    Returns {"seconds", "method"}. Raises Failure.
    """
    began, before = time.monotonic(), _drops()
    os.sync()
    try:
        drop_pages()
    except OSError as error:
        raise Failure(f"{DROP} on {os.uname().nodename}: {error.strerror}; dropping caches needs root") from error
    if _drops() <= before:
        raise Failure(f"{os.uname().nodename} did not drop its caches: drop_pagecache in {COUNTERS} did not rise")
    return {"seconds": time.monotonic() - began, "method": "drop_caches=3"}


def _drops() -> int:
    """How often this kernel has dropped its page cache since it was booted."""
    lines = COUNTERS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("drop_pagecache "))


def bring_in(files: list[Path]) -> None:
    """Read files into the page cache. Raises OSError."""
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def cached_pages(files: list[Path]) -> int:
    """Pages of `files` in the page cache, by cachestat(2), or by mincore(2) where the kernel lacks it."""
    return sum(_cached_pages(path) for path in files)


def _cached_pages(path: Path) -> int:
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        if not size:
            return 0
        stat = _Stat()
        whole = _Range(0, 0)
        if _libc.syscall(SYS_CACHESTAT, fd, ctypes.byref(whole), ctypes.byref(stat), 0) == 0:
            return stat.nr_cache
        return _mincore(fd, size)
    finally:
        os.close(fd)


def _mincore(fd: int, size: int) -> int:
    pages = -(-size // mmap.PAGESIZE)
    vector = (ctypes.c_ubyte * pages)()
    with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as view:
        anchor = ctypes.c_char.from_buffer(view)
        failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(size), vector)
        del anchor
    if failed:
        raise OSError(ctypes.get_errno(), "mincore failed")
    return sum(page & 1 for page in vector)
