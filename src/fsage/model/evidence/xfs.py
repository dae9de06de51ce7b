"""What xfs_db tells of the free space of an XFS that is mounted nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import Geometry, NotThisText, Store, check_device, number_of, of_extents

KIND = "allocation group"
FREE = re.compile(rb" +(\d+) +(\d+) +(\d+)$")
FIELD = re.compile(rb"(\w+) = (\d+)$")
TOTAL = re.compile(rb" +\d+ +\d+ +(\d+) +\d+ +[0-9.]+$")
NEEDED = (b"blocksize", b"dblocks", b"agblocks")


def of_text(lines: Iterable[bytes], counting: Counting = ONCE) -> Store:
    """The store in the output of xfs_db (fsage.host.filesystems.xfs). Raises NotThisText."""
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
