"""How much XFS gives a file at a time: the extent size hint of a directory, and the mount option allocsize.

The hint (xfs(5), xfs_io(8) `extsize`; FS_IOC_FSGETXATTR in <linux/fs.h>) rounds every allocation of the files that are
made below, direct writes as well as buffered ones; allocsize is what is set aside beyond the end of a file that is
written through the cache (Documentation/admin-guide/xfs.rst). Both together leave no write out.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from fsage.agent.errors import Failure

FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR = 0x801C581F, 0x401C5820
FS_XFLAG_EXTSZINHERIT = 0x1000
FSXATTR = struct.Struct("=IIIII8x")  # fsx_xflags fsx_extsize fsx_nextents fsx_projid fsx_cowextsize


def hint_bytes(directory: Path) -> int:
    """The hint that files made in this directory get; 0: none."""
    flags, size_bytes, *_ = _get(directory)
    return size_bytes if flags & FS_XFLAG_EXTSZINHERIT else 0


def set_hint(directory: Path, size_bytes: int) -> None:
    """Give files that are made in this directory from now on a hint, 0: none; read back. Raises Failure."""
    flags, _, extents, project, cow = _get(directory)
    flags = flags | FS_XFLAG_EXTSZINHERIT if size_bytes else flags & ~FS_XFLAG_EXTSZINHERIT
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(descriptor, FS_IOC_FSSETXATTR, FSXATTR.pack(flags, size_bytes, extents, project, cow))
    except OSError as error:
        raise Failure(f"{directory}: an extent size hint of {size_bytes} was refused ({error.strerror})") from error
    finally:
        os.close(descriptor)
    if (found := hint_bytes(directory)) != size_bytes:
        raise Failure(f"{directory}: asked for an extent size hint of {size_bytes} bytes, reads back {found}")


def directories(mount: Path) -> list[Path]:
    """Where files are made: the root of a store and what is below, but not fsage's own notes, which are small."""
    return [
        mount,
        *(
            path
            for top in sorted(mount.iterdir())
            if top.name != ".fsage" and top.is_dir() and not top.is_symlink()
            for path in _below(top)
        ),
    ]


def mount_option(size_bytes: int) -> str:
    """The mount option, as the kernel lists it in /proc/self/mounts: a power of two from 64 KiB to 1 GiB."""
    return f"allocsize={size_bytes >> 10}k"


def _below(top: Path) -> list[Path]:
    return [Path(place) for place, _, _ in os.walk(top)]


def _get(directory: Path) -> tuple[int, ...]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return FSXATTR.unpack(fcntl.ioctl(descriptor, FS_IOC_FSGETXATTR, bytes(FSXATTR.size)))
    finally:
        os.close(descriptor)
