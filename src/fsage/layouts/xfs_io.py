"""Texts of XFS by xfs_io's ways: xfs_bmap, `fiemap -v` and fsmap.

They count sectors of 512 bytes, and do not say how large a block is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from fsage.base.sizes import counted
from fsage.layouts.fragmentation import Extent, FileLayouts
from fsage.layouts.freespace import Counting
from fsage.layouts.store import (
    OF_DEVICE,
    Geometry,
    NotThisText,
    Store,
    check_device,
    check_extents,
    number_of,
    of_extents,
    shown,
    without,
)
from fsage.layouts.stream import UNENDED, check_whole
from fsage.layouts.xfs import ASK, BLOCK_BYTES, KIND, SECTOR_BYTES

# The last column of -v and -p, and that of `xfs_io -c 'fiemap -v'`, which has the flags of linux/fiemap.h.
FLAGS = (("shared", 0o100000, 0x2000), ("unwritten", 0o10000, 0x800), ("encoded", 0, 0x8))
FIEMAP_PLACELESS = 0x2 | 0x4 | 0x200  # unknown, delayed, inline
FAILED = re.compile(rb"xfs_(?:bmap|io): |.*: (?:Permission denied|No such file or directory|foreign file active)")
NAME = re.compile(rb"(?!FLAG Values:)(\S.*):( no extents)?$")
# Number, place in the file, place on the device; then with -v group, place in it, length, and flags where one has any.
ROW = re.compile(
    rb"\s*(\d+): \[(\d+)\.\.(\d+)\]:\s+(?:(\d+)\.\.(\d+)|hole|delalloc)"
    rb"(?:\s+\d+ \S+\s+\d+ ([0-7]+) *$|\s+\d+\s+0x([0-9a-f]{1,8}) *$|\b)"
)
LIKE_A_ROW = re.compile(rb"\s*\d+:|.*\d\.\. *\d|\s*\d[\d\s]*$")
"""A line that was bent, so that what it tells is lost; others are what people, shells and the tool say between."""


def of_bmap_text(lines: Iterable[bytes]) -> Store:
    """How the listed files lie, any number of them, by xfs_bmap with or without -v and -p. Raises NotThisText.

    It counts sectors of 512 bytes and does not say how large a block is, so there is no layout score. It has no mark of
    its end either: a text that was cut between two lines cannot be told from a whole one.
    """
    layouts = FileLayouts(None)
    pieces = list[Extent]()
    expected = reached = 0  # number of an extent, sector in the file
    pending = b""
    line = b""
    failed = list[str]()
    flags = Counter[str]()
    filesystem: str | None = "xfs"
    names = set[int]()
    for line in lines:
        check_whole(line)
        row = ROW.match(line)
        if row:
            if pending and expected:
                layouts.add(pieces)
                expected = 0
                pieces = []
            pending = b""
            if number_of(row[1]) != expected or (expected and number_of(row[2]) != reached):
                raise NotThisText(f"xfs_bmap's text has extent {shown(line.strip())!r} where {expected} should be")
            expected += 1
            reached = number_of(row[3]) + 1
            if row[7]:
                filesystem = None  # any can be asked so
            if row[4]:
                pieces += _placed(row, flags)
                check_extents(len(pieces))
        elif FAILED.match(line):
            failed.append(line.strip().decode(errors="replace")[:100])
        elif name := NAME.match(line):
            _check_rows_of(pending, bool(expected))
            if hash(name[1]) in names:
                raise NotThisText(f"xfs_bmap's text lists {shown(name[1])} twice: give one text at a time")
            names.add(hash(name[1]))
            pending = name[1]
            if name[2]:
                layouts.add([])
                pending = b""
        elif LIKE_A_ROW.match(line):
            raise NotThisText(f"xfs_bmap's text continues with {shown(line)!r}, which is no whole extent")
    _check_rows_of(pending, True)
    if not line.endswith(b"\n"):
        raise NotThisText(UNENDED)
    if not expected and not names:
        raise NotThisText("xfs_bmap's text names no file and lists no extent")
    if expected:
        layouts.add(pieces)
    absent = without(OF_DEVICE, "xfs_bmap tells of files only")
    source = "; ".join(["xfs_bmap", *(f"{counted(flags[flag], 'extent')} {flag}" for flag, *_ in FLAGS if flags[flag])])
    if flags["encoded"]:
        source += ", whose length and place are not those of the data"
    if failed:
        source += f"; {counted(len(failed), 'file')} could not be read, the first: {failed[0]}"
    return Store(filesystem, {"files": source}, {"files": {"listed": layouts.summary()}}, absent)


def _placed(row: re.Match[bytes], flags: Counter[str]) -> list[Extent]:
    """The extent of a row; none where it has no place. Its flags are counted."""
    begin, last, place, end = (number_of(number) * SECTOR_BYTES for number in row.groups()[1:5])
    if end - place != last - begin:
        raise NotThisText(f"xfs_bmap's row {shown(row.string.strip())!r} does not add up: digits are missing")
    of_bmap = int((row[6] or b"0")[-20:], 8)
    of_fiemap = int(row[7] or b"0", 16)
    if of_fiemap & FIEMAP_PLACELESS:
        return []
    flags.update(flag for flag, bmap, fiemap in FLAGS if of_bmap & bmap or of_fiemap & fiemap)
    return [Extent(begin, place, last - begin + SECTOR_BYTES, False)]


def _check_rows_of(name: bytes, is_file: bool) -> None:
    """Raise NotThisText for a name without rows; before the first file it may be what somebody writes above it."""
    if name and (is_file or b" " not in name):
        raise NotThisText(f"xfs_bmap's text has no row below {shown(name)!r}: rows are missing, or it was cut short")


FSMAP_ROW = re.compile(rb"\s*\d+: (\d+:\d+) \[(\d+)\.\.(\d+)\]:\s+\S(?!.*\]:)")  # one on a line
OF_FIRST_AG = re.compile(rb".*\s0\s+\(\d+\.\.\d+\)\s+\d")
SPECIAL_OF_EXT4 = b": special 102:"  # owners that only ext4 has (EXT4_FMR_OWN_FS and following, fs/ext4/fsmap.h)
FSMAP_FREE = b"free space"


def of_fsmap_text(lines: Iterable[bytes], counting: Counting) -> Store:
    """The store of `xfs_io -c fsmap MOUNT`, with or without -v: each extent, by who has it. Raises NotThisText.

    It counts sectors. How large a block is it does not say: 4 KiB is what mkfs.xfs makes unasked. The first device with
    free space is the main one, for an external log may come before it. Its extents must follow one another without a
    gap; what files share is listed for each of them (rmapbt). A text that was cut between two lines cannot be told from
    a whole one. Without -v it has no groups.
    """
    free: list[tuple[int, int]] = []
    end = 0
    main = b""
    others = 0
    filesystem = "xfs"
    group_end = 0  # of the first, where it is told (-v)
    line = b""
    for line in lines:
        row = FSMAP_ROW.match(line)
        if not row and LIKE_A_ROW.match(line):
            raise NotThisText(f"fsmap's text continues with {shown(line)!r}, which is no whole extent")
        if not row:
            continue
        if row[1] != main:
            if free:  # a real-time device, or a log
                others += FSMAP_FREE in line
                continue
            main = row[1]
            end = 0
        start = number_of(row[2])
        last = number_of(row[3])
        is_free = FSMAP_FREE in line
        free_end = sum(free[-1]) // SECTOR_BYTES if free else 0
        if start > end or last < start or start < (end if is_free else free_end):
            raise NotThisText(f"fsmap's text has sectors {start} to {last} where {end} should follow: it is not whole")
        if is_free:
            free.append((start * SECTOR_BYTES, (last + 1 - start) * SECTOR_BYTES))
        if SPECIAL_OF_EXT4 in line:
            filesystem = "ext4"
        if OF_FIRST_AG.match(line):
            group_end = max(group_end, last + 1)
        end = max(end, last + 1)
    if not line.endswith(b"\n"):
        raise NotThisText(UNENDED)
    if not free:
        raise NotThisText("fsmap's text has no free space: was it in another language? Run `LC_ALL=C xfs_io -c fsmap`")
    device_bytes = end * SECTOR_BYTES
    check_device(device_bytes // BLOCK_BYTES, BLOCK_BYTES)
    if any(start % BLOCK_BYTES or length % BLOCK_BYTES for start, length in free):
        raise NotThisText(
            f"fsmap's text has free space in other blocks than of {BLOCK_BYTES} bytes, and does not say in which: "
            f"{ASK} does"
        )
    geometry = Geometry(device_bytes, BLOCK_BYTES, group_end * SECTOR_BYTES or device_bytes)
    source = "xfs_io fsmap; it has no mark of its end"
    if others:
        source += f"; of device {main.decode()}, and not of {counted(others, 'free extent')} on another"
    store = of_extents(filesystem, source, KIND, geometry, free, counting)
    if not group_end:
        del store.found["groups"]
        store.absent["groups"] = "fsmap tells of groups only with -v"
    store.absent["files"] = "fsmap is read for free space only"
    return store
