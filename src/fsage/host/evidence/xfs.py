"""The layout of XFS: mounted, from the kernel; not mounted, from xfs_db.

Mounted, GETFSMAP gives the free space that `xfs_spaceman -c freesp` counts, with its place. xfs_db on a mounted XFS is
stale even after a sync and is not asked. What statfs(2) has as free is less: it leaves out what each allocation group
holds back for its own trees.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from fsage.host.evidence.fsmap import free_extents
from fsage.host.system.shell import run
from fsage.model.errors import Failure
from fsage.model.evidence import xfs
from fsage.model.evidence.counting import ONCE, Counting
from fsage.model.evidence.store import Geometry, NotThisText, Store, of_extents

XFS_IOC_FSGEOMETRY_V1 = 0x80705864  # _IOR('X', 100, struct xfs_fsop_geom_v1), fs/xfs/libxfs/xfs_fs.h
# block bytes, then blocks of an allocation group; the number of blocks of the data device
GEOMETRY = struct.Struct("=L4xL20xQ72x")


def of_mount(mount: Path, counting: Counting = ONCE) -> Store:
    """The store of a mounted XFS. Raises OSError."""
    fd = os.open(mount, os.O_RDONLY)
    try:
        block_bytes, group_blocks, blocks = GEOMETRY.unpack(
            fcntl.ioctl(fd, XFS_IOC_FSGEOMETRY_V1, bytes(GEOMETRY.size))
        )
    finally:
        os.close(fd)
    geometry = Geometry(blocks * block_bytes, block_bytes, group_blocks * block_bytes)
    return of_extents("xfs", "FS_IOC_GETFSMAP", xfs.KIND, geometry, free_extents(mount), counting)


def of_device(device: str, counting: Counting = ONCE) -> Store:
    """The store of an XFS that is mounted nowhere, on a device or in an image. Raises Failure."""
    command = ["xfs_db", "-r", "-c", "sb 0", "-c", "print blocksize dblocks agblocks"]
    output = run([*command, "-c", "freesp -d", device]).stdout
    try:
        return xfs.of_text(output.encode().splitlines(keepends=True), counting)
    except NotThisText as error:
        raise Failure(f"{device}: {error}; is there an XFS on it?") from error
