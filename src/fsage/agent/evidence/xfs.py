"""The layout of XFS: mounted, from the kernel; not mounted, from xfs_db.

Mounted, GETFSMAP gives the free space that `xfs_spaceman -c freesp` counts, with its place. xfs_db on a mounted XFS is
stale even after a sync and is not asked. What statfs(2) has as free is less: it leaves out what each allocation group
holds back for its own trees.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from pathlib import Path

from fsage.agent.errors import Failure
from fsage.agent.evidence.freespace import BINS
from fsage.agent.evidence.fsmap import free_extents
from fsage.agent.evidence.store import Geometry, Store, of_extents
from fsage.agent.system.shell import run

KIND = "allocation group"
XFS_IOC_FSGEOMETRY_V1 = 0x80705864  # _IOR('X', 100, struct xfs_fsop_geom_v1), fs/xfs/libxfs/xfs_fs.h
# block bytes, then blocks of an allocation group; the number of blocks of the data device
GEOMETRY = struct.Struct("=L4xL20xQ72x")


def of_mount(mount: Path, bins: int = BINS) -> Store:
    """The store of a mounted XFS. Raises OSError."""
    fd = os.open(mount, os.O_RDONLY)
    try:
        block_bytes, group_blocks, blocks = GEOMETRY.unpack(
            fcntl.ioctl(fd, XFS_IOC_FSGEOMETRY_V1, bytes(GEOMETRY.size))
        )
    finally:
        os.close(fd)
    geometry = Geometry(blocks * block_bytes, block_bytes, group_blocks * block_bytes)
    return of_extents("xfs", "FS_IOC_GETFSMAP", KIND, geometry, free_extents(mount), bins)


def of_device(device: str, bins: int = BINS) -> Store:
    """The store of an XFS that is mounted nowhere, on a device or in an image. Raises Failure."""
    asked = ["xfs_db", "-r", "-c", "sb 0", "-c", "print blocksize dblocks agblocks"]
    said = run([*asked, "-c", "freesp -d", device]).stdout
    superblock = dict(re.findall(r"^(\w+) = (\d+)$", said, re.M))
    free = [tuple(map(int, row)) for row in re.findall(r"^ +(\d+) +(\d+) +(\d+)$", said, re.M)]
    try:
        block_bytes, blocks, group_blocks = (int(superblock[name]) for name in ("blocksize", "dblocks", "agblocks"))
    except KeyError as error:
        raise Failure(f"{device}: xfs_db does not say {error}; is there an XFS on it?") from error
    # The list has each group's own small reserve, the AGFL, before its tree.
    extents = [((group * group_blocks + start) * block_bytes, count * block_bytes) for group, start, count in free]
    geometry = Geometry(blocks * block_bytes, block_bytes, group_blocks * block_bytes)
    return of_extents("xfs", "xfs_db freesp (the log not replayed)", KIND, geometry, sorted(extents), bins)
