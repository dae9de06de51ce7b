"""The text of `xfs_io -c fsmap MOUNT`, with or without -v: every extent of the data device, by who has it.

It counts sectors of 512 bytes. How large a block is it does not say: 4 KiB is what mkfs.xfs makes unasked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import Geometry, NotThisText, Store, check_device, number_of, of_extents

SECTOR_BYTES, BLOCK_BYTES = 512, 4096
ROW = re.compile(rb"\s+\d+: (\d+:\d+) \[(\d+)\.\.(\d+)\]:\s+(\S+(?: \S+)*?)(?:\s{2,}.*| \d+)?$")
GROUP = re.compile(rb".*\s1\s+\(0\.\.\d+\)\s+\d+$")
HEAD = b" EXT: DEV BLOCK-RANGE"
FREE = b"free space"


def of_text(lines: Iterable[bytes], counting: Counting = ONCE) -> Store:
    """The store that the text tells of. Raises NotThisText.

    The first device is the main one. Its extents must follow one another without a gap; a text that was cut between
    two lines cannot be told from a whole one.
    """
    free: list[tuple[int, int]] = []
    end, main, group, line = 0, b"", 0, b""
    for line in lines:
        row = ROW.match(line)
        if not row and line.startswith(HEAD):
            continue
        if not row:
            raise NotThisText(f"fsmap's text continues with {line[:60]!r}, which is no extent: cut short or foreign")
        main = main or row[1]
        if row[1] != main:  # a log or a real-time device
            continue
        start, last = number_of(row[2]), number_of(row[3])
        if start != end or last < start:
            raise NotThisText(f"fsmap's text has sectors {start} to {last} where {end} should follow: it is not whole")
        if row[4].startswith(FREE):
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
