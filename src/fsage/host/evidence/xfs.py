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
from collections.abc import Iterable
from pathlib import Path

from fsage.host.evidence.counting import ONCE, Counting
from fsage.host.evidence.fsmap import free_extents
from fsage.host.evidence.store import Geometry, NotThisText, Store, check_device, number_of, of_extents
from fsage.host.system.shell import run
from fsage.model.errors import Failure

KIND = "allocation group"
FREE = re.compile(rb" +(\d+) +(\d+) +(\d+)$")
FIELD = re.compile(rb"(\w+) = (\d+)$")
TOTAL = re.compile(rb" +\d+ +\d+ +(\d+) +\d+ +[0-9.]+$")
NEEDED = (b"blocksize", b"dblocks", b"agblocks")
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
    return of_extents("xfs", "FS_IOC_GETFSMAP", KIND, geometry, free_extents(mount), counting)


def of_device(device: str, counting: Counting = ONCE) -> Store:
    """The store of an XFS that is mounted nowhere, on a device or in an image. Raises Failure."""
    asked = ["xfs_db", "-r", "-c", "sb 0", "-c", "print blocksize dblocks agblocks"]
    said = run([*asked, "-c", "freesp -d", device]).stdout
    try:
        return of_text(said.encode().splitlines(keepends=True), counting)
    except NotThisText as error:
        raise Failure(f"{device}: {error}; is there an XFS on it?") from error


def of_text(lines: Iterable[bytes], counting: Counting = ONCE) -> Store:
    """The store that xfs_db tells of, asked as in `of_device`. Raises NotThisText."""
    superblock: dict[bytes, int] = {}
    free: list[tuple[int, int, int]] = []  # group, start in it, blocks
    listed = 0
    for line in lines:
        if row := FREE.match(line):
            free.append((number_of(row[1]), number_of(row[2]), number_of(row[3])))
        elif field := FIELD.match(line):
            superblock[field[1]] = number_of(field[2])
        elif total := TOTAL.match(line):
            listed += number_of(total[1])
    if lacking := [name.decode() for name in NEEDED if name not in superblock]:
        raise NotThisText(
            f"xfs_db does not say {', '.join(lacking)}: `xfs_db -r -c 'sb 0' -c 'print blocksize dblocks agblocks' "
            "-c 'freesp -d' DEVICE` does"
        )
    if listed != len(free):
        raise NotThisText(f"xfs_db lists {len(free)} free extents and counts {listed} in the end: it was cut short")
    block_bytes, blocks, group_blocks = (superblock[name] for name in NEEDED)
    check_device(blocks, block_bytes)
    if not group_blocks:
        raise NotThisText("xfs_db tells of allocation groups of 0 blocks, which cannot be")
    for group, start, count in free:
        if not (count and start + count <= group_blocks and group * group_blocks + start + count <= blocks):
            raise NotThisText(f"xfs_db lists {count} free blocks at {start} of group {group}, where none can be")
    # The list has each group's own small reserve, the AGFL, before its tree.
    extents = (
        ((group * group_blocks + start) * block_bytes, count * block_bytes) for group, start, count in sorted(free)
    )
    geometry = Geometry(blocks * block_bytes, block_bytes, group_blocks * block_bytes)
    try:
        store = of_extents("xfs", "xfs_db freesp (the log not replayed)", KIND, geometry, extents, counting)
    except ValueError as error:
        raise NotThisText(f"xfs_db's list of free extents: {error}") from error
    store.absent["files"] = "xfs_db lists free space only"
    return store
