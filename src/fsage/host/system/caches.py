"""Dropping caches, and verifying that they were dropped: pages of data, names and inodes.

Counting a file's pages opens the file, which brings its name and inode into memory again. So pages are counted before
the last drop. After it only names are looked up, by a call that fails where it would have to read (`openat2(2)` with
RESOLVE_CACHED, Linux 5.12). This works alike on every local file system. The counters of /proc/slabinfo would not do:
they are of all mounts of a type together. A descriptor for cachestat(2) itself keeps the inode. A file
whose name is not in memory has an inode there only while something else holds it, and its pages were counted.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.base import Call, Failure, Json
from fsage.host.system import kernel, privilege
from fsage.model.caches import COLD, KEPT, UNASKED, WARM

if TYPE_CHECKING:
    from fsage.model.answers import Dropped, Left  # not part of root's helper

SYS_CACHESTAT = 451  # the same number on every architecture since Linux 6.5
SYS_OPENAT2 = 437
RESOLVE_CACHED = 0x20
AT_FDCWD = -100
BLKFLSBUF = 0x1261  # linux/fs.h
# The kernel keeps a name that was used lately at the first drop, and a name that another process uses for as long as it
# does. In a testbed several hosts share one kernel and drop caches at the same time.
NAMES_PATIENCE_S = 2.0
NAMES_PAUSE_S = 0.02
DROP = Path("/proc/sys/vm/drop_caches")
COUNTERS = Path("/proc/vmstat")


class _Range(ctypes.Structure):
    _fields_ = [("off", ctypes.c_uint64), ("len", ctypes.c_uint64)]


class _Stat(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("nr_cache", "nr_dirty", "nr_writeback", "nr_evicted", "nr_recently_evicted")
    ]


class _How(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("flags", "mode", "resolve")]


def flush(mount: Path) -> None:
    """Write out all that is dirty on one file system (syncfs(2)). Raises OSError."""
    with kernel.opened(mount) as descriptor:
        if kernel.library.syncfs(descriptor):
            raise OSError(ctypes.get_errno(), "syncfs failed", str(mount))


def drop(files: list[Path], before: Call = lambda: None) -> Dropped:
    """Flush and drop the caches; the result of `left_of`, with "seconds" and "method".

    `before` is called before pages are dropped, and again before names are.

    `cached_pages`: pages of `files` that stayed in memory. A cell whose files are still cached must fail, because its
    read would not reach the device. Without root only these files' own pages can be dropped (posix_fadvise), and their
    names and inodes stay.
    """
    began = time.monotonic()
    before()
    pages, method = drop_pages(files)
    before()
    return {**drop_names(files), "seconds": time.monotonic() - began, "cached_pages": pages, "method": method}


def drop_pages(files: list[Path]) -> tuple[int, str]:
    """Flush and drop; how many pages of `files` stayed, and by which method. Each file is opened."""
    for path in {path.parent: path for path in files}.values():  # all files of a directory are on one file system
        flush(path)
    if not may_drop():
        for path in files:
            give_up(path)
        return cached_pages(files), "posix_fadvise(DONTNEED)"
    drop_all_pages()
    cached = cached_pages(files)
    if cached:  # a page that is being written survives the first drop
        drop_all_pages()
        cached = cached_pages(files)
    return cached, "drop_caches=3"


def may_drop() -> bool:
    """Whether this process can have the kernel drop its caches."""
    return os.access(DROP, os.W_OK) or (os.geteuid() != 0 and privilege.unavailable_because() is None)


@privilege.privileged("drop-caches")
def drop_all_pages() -> None:
    """Have the kernel drop its caches once, as far as it can. Raises OSError."""
    DROP.write_text("3\n")


def drop_names(files: list[Path]) -> Left:
    """Drop the names that counting brought in, after which nobody may touch `files`; the result of `left_of`."""
    if not may_drop():
        if files:
            return {**left_of(files), "metadata": KEPT}
        return left_of(files)
    for last in kernel.attempts(NAMES_PATIENCE_S, NAMES_PAUSE_S):
        drop_all_pages()
        left = left_of(files)
        if last or not left["cached_names"]:
            break
    return left


def left_of(files: list[Path]) -> Left:
    """What of `files` is in memory, without bringing anything in: {"cached_pages", "cached_names", "metadata"}.

    `files` are paths without symbolic links. `cached_names` is None where the kernel lacks the call. Pages are counted
    for files whose names are in memory.
    """
    names = known(files)
    if names is None:
        return {"cached_pages": 0, "cached_names": None, "metadata": UNASKED}
    return {"cached_pages": cached_pages(names), "cached_names": len(names), "metadata": WARM if names else COLD}


def together(hosts: Sequence[Left]) -> Left:
    """The results of `left_of` on several hosts as one: sums, and the warmest metadata."""
    names = [host["cached_names"] for host in hosts]
    counted = [count for count in names if count is not None]
    return {
        "cached_pages": sum(host["cached_pages"] for host in hosts),
        "cached_names": sum(counted) if len(counted) == len(names) else None,
        "metadata": min((host["metadata"] for host in hosts), key=(WARM, KEPT, UNASKED, COLD).index),
    }


def known(files: list[Path]) -> list[Path] | None:
    """The files whose names the kernel has in memory; it reads nothing for this. None where it lacks the call."""
    how = _How(os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, RESOLVE_CACHED)
    names = []
    for path in files:
        descriptor = kernel.library.syscall(
            SYS_OPENAT2, AT_FDCWD, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)
        )
        if descriptor >= 0:
            os.close(descriptor)
            names.append(path)
        elif (code := ctypes.get_errno()) in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
            return None
        elif code not in (errno.EAGAIN, errno.ENOENT):
            raise OSError(code, os.strerror(code), str(path))
    return names


def drop_device(device: str) -> None:
    """Drop the cache of a block device that is not mounted. Raises OSError.

    ext4 keeps inode tables and directories there. An unmount drops them only where nobody else has the device open.
    """
    with kernel.opened(device) as descriptor:
        fcntl.ioctl(descriptor, BLKFLSBUF)


def give_up(path: Path) -> None:
    """Flush one file and drop its pages, so that the next read reaches the device. Raises OSError.

    Whether the kernel dropped them is not verified: see `cached_pages`.
    """
    with kernel.opened(path) as descriptor:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def drop_all() -> Json:
    """Flush and drop all caches of a server, where no file can be examined; the kernel's counter must confirm it.

    Returns {"seconds", "method"}. Raises Failure.
    """
    began = time.monotonic()
    before = _drops()
    os.sync()
    try:
        drop_all_pages()
    except OSError as error:
        raise Failure(f"{DROP} on {os.uname().nodename}: {error.strerror}; dropping caches needs root") from error
    if _drops() <= before:
        raise Failure(f"{os.uname().nodename} did not drop its caches: drop_pagecache in {COUNTERS} did not rise")
    return {"seconds": time.monotonic() - began, "method": "drop_caches=3"}


def _drops() -> int:
    """How often this kernel has dropped its page cache since it was booted."""
    lines = COUNTERS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("drop_pagecache "))


def bring_in(files: list[Path]) -> None:
    """Read files into the page cache. Raises OSError."""
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def cached_pages(files: list[Path]) -> int:
    """Pages of `files` in the page cache, by cachestat(2), or by mincore(2) where the kernel lacks it."""
    pages = 0
    for path in files:
        with kernel.opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            if size:
                pages += _pages_of(descriptor, size)
    return pages


def _pages_of(descriptor: int, size: int) -> int:
    stat = _Stat()
    whole = _Range(0, 0)
    if kernel.library.syscall(SYS_CACHESTAT, descriptor, ctypes.byref(whole), ctypes.byref(stat), 0) == 0:
        return stat.nr_cache
    return _mincore(descriptor, size)


def _mincore(fd: int, size: int) -> int:
    pages = -(-size // mmap.PAGESIZE)
    vector = (ctypes.c_ubyte * pages)()
    with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as view:
        anchor = ctypes.c_char.from_buffer(view)
        failed = kernel.library.mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(size), vector)
        del anchor
    if failed:
        raise OSError(ctypes.get_errno(), "mincore failed")
    return sum(page & 1 for page in vector)
