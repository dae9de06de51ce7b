"""Which files must not be given to a defragmenting tool, and why; what is risked with the others."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
import struct
from pathlib import Path

from fsage.agent.defragmentation.defragment import with_tool
from fsage.agent.errors import Failure
from fsage.agent.evidence import fiemap
from fsage.agent.system import mounting
from fsage.text.sizes import round_size

FS_IOC_GETFLAGS = 0x80086601  # linux/fs.h, as all below
FS_IOC_FSGETXATTR = 0x801C581F
FS_XFLAG_NODEFRAG = 0x2000
FLAGS = {
    0x10: "is immutable (chattr -i)",
    0x20: "is append-only (chattr -a)",
    0x100000: "is sealed by fs-verity",
}


def why_not(path: Path) -> str | None:
    """Why this file is not touched, in words that follow its name; None if it can be."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return f"is a link: give what it points to, {path.resolve()}"
        if not stat.S_ISREG(found.st_mode):
            return "is not a regular file"
        return of_place(path) or _of_file(path, found)
    except (OSError, Failure) as error:
        return f"cannot be looked at: {error.strerror if isinstance(error, OSError) else error}"


def of_place(path: Path) -> str | None:
    """Why nothing on the file system that holds `path` is touched. Raises Failure."""
    mount = mounting.mount_of(path)
    if mount.type not in (able := with_tool()):
        return f"is on {mount.type}; only files on {', '.join(able)} can be defragmented"
    if "ro" in mount.options.split(","):
        return f"is on {mount.point}, which is mounted read-only"
    return None


def _of_file(path: Path, found: os.stat_result) -> str | None:
    if is_swap(found):
        return "is swapped to"
    if os.geteuid() not in (0, found.st_uid):
        return f"belongs to user {found.st_uid}; this is user {os.geteuid()}"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < found.st_size:
        return f"has {found.st_size} bytes, and this shell may not write files of more than {limit} (ulimit -f)"
    free = os.statvfs(path)
    free_bytes = (free.f_bfree if os.geteuid() == 0 else free.f_bavail) * free.f_frsize
    if free_bytes < found.st_blocks * 512:
        return (
            f"takes {round_size(found.st_blocks * 512)}, and only {round_size(free_bytes)} are free for a second copy"
        )
    return _of_inode(path)


def _of_inode(path: Path) -> str | None:
    extents = fiemap.flags(path)
    if extents & fiemap.FIEMAP_EXTENT_SHARED:
        return "shares extents with another file or a snapshot: it would take its space a second time"
    if extents & fiemap.FIEMAP_EXTENT_ENCODED:
        return "is compressed or encrypted: its extents are short by nature"
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        flags = _flags(fd, FS_IOC_GETFLAGS, 8)
        for flag, words in FLAGS.items():
            if flags & flag:
                return words
        if _flags(fd, FS_IOC_FSGETXATTR, 28) & FS_XFLAG_NODEFRAG:
            return "is marked not to be defragmented (xfs_io -c 'chattr -f')"
        return _open_for_writing(fd)
    finally:
        os.close(fd)


def _flags(fd: int, request: int, size: int) -> int:
    """The word of flags with which the answer to an ioctl begins; 0 where the file system does not know it."""
    try:
        return int(struct.unpack_from("=L", fcntl.ioctl(fd, request, bytes(size)))[0])
    except OSError as error:
        if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP):
            return 0
        raise


def _open_for_writing(fd: int) -> str | None:
    """The kernel grants a read lease only while nobody, in whatever namespace, can write to the file (fcntl(2))."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return "is open for writing"
        raise
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return None


def is_swap(found: os.stat_result, swaps: Path = Path("/proc/swaps")) -> bool:
    """Whether the kernel swaps to this file."""
    for line in swaps.read_text(encoding="utf-8", errors="surrogateescape").splitlines()[1:]:
        name = mounting.plain(line.split()[0])
        if os.path.exists(name) and os.path.samestat(os.stat(name), found):
            return True
    return False
