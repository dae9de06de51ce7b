"""Texts of XFS' tools.

- xfs_db: free space of an XFS that is mounted nowhere.
- xfs_bmap, with or without -v and -p: extents of files in any number. It counts sectors of 512 bytes and does not say
  how large a block is, so there is no layout score. It has no mark of its end either: a text that was cut between two
  lines cannot be told from a whole one.
- `xfs_io -c fsmap MOUNT`, with or without -v: every extent of the data device, by who has it. It counts sectors too.
  How large a block is it does not say: 4 KiB is what mkfs.xfs makes unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsage.model.evidence.files import FileLayouts
from fsage.model.evidence.fragmentation import Extent
from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import (
    OF_DEVICE,
    Geometry,
    NotThisText,
    Store,
    check_device,
    check_extents,
    number_of,
    of_extents,
    without,
)
from fsage.model.typed import Json

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
            f"xfs_db does not say {', '.join(lacking)}: `xfs_db -r -c 'sb 0' -c 'print blocksize dblocks agblocks "
            "inodesize logblocks logstart' -c 'freesp -d' DEVICE` does"
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
    log = (superblock.get(name, 0) for name in (b"logblocks", b"logstart"))
    store.geometry = made(blocks, block_bytes, group_blocks, *log)
    if b"inodesize" in superblock:
        store.geometry["inode_bytes"] = superblock[b"inodesize"]
    return store


def made(blocks: int, block_bytes: int, group_blocks: int, log_blocks: int, log_start: int) -> Json:
    """The sizes by which another one is made (fsage.model.geometry); `log_start`: 0 for an external log, or unknown.

    A block's number has the group's above as many bits as count the blocks of one (xfs_format.h, XFS_AGB_TO_FSB).
    """
    sizes = {"blocks": blocks, "block_bytes": block_bytes, "group_blocks": group_blocks}
    log = {"log_blocks": log_blocks, "log_group": log_start >> (group_blocks - 1).bit_length()}
    return {**sizes, **log} if log_start else sizes


SECTOR_BYTES = 512
UNWRITTEN = 0o10000  # of the flags, the last column of -v and -p
NAME = re.compile(rb"(\S.*):(?: no extents)?$")
# Number, place in the file, place on the device; then with -v group, place in it, length, and flags where one has any.
ROW = re.compile(rb"\s+(\d+): \[(\d+)\.\.(\d+)\]:\s+(?:(\d+)\.\.\d+|hole|delalloc)(?:\s+\d+ \S+\s+\d+ ([0-7]+)$|\b)")
HEAD, LEGEND = b" EXT: FILE-OFFSET", b" FLAG Values:"


def of_bmap_text(lines: Iterable[bytes]) -> Store:
    """How the listed files lie. Raises NotThisText."""
    layouts, pieces = FileLayouts(None), list[Extent]()
    expected, legend, line = None, False, b""
    for line in lines:
        if row := ROW.match(line):
            if expected is None or number_of(row[1]) != expected:
                raise NotThisText(f"xfs_bmap's text has extent {int(row[1])} where {expected or 0} should be")
            expected, legend = expected + 1, False
            if row[4]:
                begin, last, place = (number_of(number) * SECTOR_BYTES for number in row.groups()[1:4])
                unwritten = bool(int((row[5] or b"0")[-20:], 8) & UNWRITTEN)
                pieces.append(Extent(begin, place, last - begin + SECTOR_BYTES, unwritten))
                check_extents(len(pieces))
        elif NAME.match(line):
            if expected is not None:
                layouts.add(pieces)
            expected, pieces, legend = 0, [], False
        elif line.startswith(LEGEND):
            legend = True
        elif not (legend or line.startswith(HEAD)):
            raise NotThisText(f"xfs_bmap's text continues with {line[:60]!r}, which is no extent: cut short or foreign")
    if expected is None or not line.endswith(b"\n"):
        raise NotThisText("xfs_bmap's text ends in the middle of a line: it was cut short")
    layouts.add(pieces)
    absent = without(OF_DEVICE, "xfs_bmap tells of files only")
    return Store("xfs", {"files": "xfs_bmap"}, {"files": {"listed": layouts.summary()}}, absent)


BLOCK_BYTES = 4096
FSMAP_ROW = re.compile(rb"\s+\d+: (\d+:\d+) \[(\d+)\.\.(\d+)\]:\s+(\S+(?: \S+)*?)(?:\s{2,}.*| \d+)?$")
GROUP = re.compile(rb".*\s1\s+\(0\.\.\d+\)\s+\d+$")
FSMAP_HEAD = b" EXT: DEV BLOCK-RANGE"
FSMAP_FREE = b"free space"


def of_fsmap_text(lines: Iterable[bytes], counting: Counting = ONCE) -> Store:
    """The store that the text tells of. Raises NotThisText.

    The first device is the main one. Its extents must follow one another without a gap; a text that was cut between
    two lines cannot be told from a whole one.
    """
    free: list[tuple[int, int]] = []
    end, main, group, line = 0, b"", 0, b""
    for line in lines:
        row = FSMAP_ROW.match(line)
        if not row and line.startswith(FSMAP_HEAD):
            continue
        if not row:
            raise NotThisText(f"fsmap's text continues with {line[:60]!r}, which is no extent: cut short or foreign")
        main = main or row[1]
        if row[1] != main:  # a log or a real-time device
            continue
        start, last = number_of(row[2]), number_of(row[3])
        if start != end or last < start:
            raise NotThisText(f"fsmap's text has sectors {start} to {last} where {end} should follow: it is not whole")
        if row[4].startswith(FSMAP_FREE):
            free.append((start * SECTOR_BYTES, (last + 1 - start) * SECTOR_BYTES))
        if not group and GROUP.match(line):
            group = start * SECTOR_BYTES
        end = last + 1
    if not end or not line.endswith(b"\n"):
        raise NotThisText("fsmap's text ends in the middle of a line: it was cut short")
    device_bytes = end * SECTOR_BYTES
    check_device(device_bytes // BLOCK_BYTES, BLOCK_BYTES)
    if any(end % BLOCK_BYTES for extent in free for end in extent):
        raise NotThisText(f"fsmap's text has free space in other blocks than of {BLOCK_BYTES} bytes")
    geometry = Geometry(device_bytes, BLOCK_BYTES, group or device_bytes)
    store = of_extents("xfs", "xfs_io fsmap", "allocation group", geometry, free, counting)
    store.absent["files"] = "fsmap is read for free space only"
    return store
