"""Texts of XFS' tools: `freesp` and `frag` of xfs_db, and `freesp` of xfs_spaceman."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fsage.base import Json
from fsage.base.sizes import counted
from fsage.layouts.classes import Class, of_classes
from fsage.layouts.freespace import Counting, usage
from fsage.layouts.store import (
    OF_DEVICE,
    Geometry,
    NotThisText,
    Store,
    check_device,
    number_of,
    of_extents,
    runs_of,
    shown,
    without,
)

KIND = "allocation group"
BLOCK_BYTES = 4096
BLOCK_SIZES = tuple(512 << power for power in range(8))
SECTOR_BYTES = 512
FREE = re.compile(rb" *(\d+) +(\d+) +(\d+) *$")
FIELD = re.compile(rb"(\w+) = (\d+) *$")  # behind a prompt, or a mark of a web page
OF_INFO = (  # what xfs_info has of the superblock
    (re.compile(rb"data +=.* bsize=(\d+) +blocks=(\d+)"), (b"blocksize", b"dblocks")),
    (re.compile(rb"meta-data=.* agsize=(\d+) blks"), (b"agblocks",)),
)
LIST = re.compile(rb"\s*agno\s+agbno\s+len *$")  # an old xfs_db's list has no head, nor that of xfs_spaceman
OF_SUMS = re.compile(rb"\s*AG +extents +blocks *$")
TABLE = re.compile(rb" *from +to +extents +blocks +pct")
CLASS_ROW = re.compile(rb" *(\d+) +(\d+) +(\d+) +(\d+) +([0-9]+[.,][0-9]+)(?: +[0-9.,]+)* *$")  # a comma: by locale
NO_ROW = re.compile(rb" *\d[\d.,' \xa0-\xff]* *$")
SUM = re.compile(rb"total free (extents|blocks) (\d+)")
OF_GROUP = re.compile(rb"(?i).*(?:\bAG\b|\bagno\b|\bgroup\b|\s-a)\D{0,3}(\d+)")
COMPLAINT = re.compile(
    rb"(?i).*(?:metadata corruption|CRC error|bad magic|FS_IOC_)"
    rb"|(?:xfs_\w+: .*)?(?:cannot|can't|not a valid|\S+ anyway)"
)
PERCENT_STEP = 0.011  # they have two digits
AT_SECTOR = re.compile(rb".* block 0x([0-9a-f]{1,15})/")
NEEDED = (b"blocksize", b"dblocks", b"agblocks")
FIELDS = "blocksize dblocks agblocks inodesize sectsize unit width logblocks logstart fdblocks"
ASK = f"`xfs_db -r -c 'sb 0' -c 'print {FIELDS}' -c 'freesp -d' DEVICE`"
OF_MAKING = {
    b"inodesize": "inode_bytes",
    b"sectsize": "sector_bytes",
    b"unit": "stride",
    b"width": "stripe_blocks",
}
REPAIR = "`xfs_repair -n DEVICE` on the unmounted file system says what is wrong"


@dataclass
class _Told:
    """What the lines say: free extents by group, place in it and blocks; tables, each with the group that it names."""

    superblock: dict[bytes, int] = field(default_factory=dict)
    free: list[tuple[int, int, int]] = field(default_factory=list)
    is_of_db: bool = False
    tables: list[list[Class]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    percent: list[float] = field(default_factory=list)
    sums: dict[bytes, int] = field(default_factory=dict)
    complaints: list[bytes] = field(default_factory=list)

    def read(self, lines: Iterable[bytes]) -> None:
        """Take all lines. Raises NotThisText."""
        group: list[int] = []
        for line in lines:
            row = FREE.match(line)
            if row:
                self.free.append((number_of(row[1]), number_of(row[2]), number_of(row[3])))
            elif field_line := FIELD.search(line):
                self.superblock[field_line[1]] = number_of(field_line[2])
                self.is_of_db = True
            elif line.startswith((b"data", b"meta-data=")):
                self._read_info(line)
            elif OF_SUMS.match(line):
                raise NotThisText(
                    "it is the text of `freesp -g`, which tells sums of groups: run `freesp -s`, or `xfs_io -c fsmap "
                    "MOUNT`"
                )
            elif LIST.match(line):
                self.is_of_db = True
            elif TABLE.match(line):
                self.tables.append([])
                self.groups += group
                group = []
            elif (row := CLASS_ROW.match(line)) and self.tables:
                self.tables[-1].append(Class(*map(number_of, row.groups()[:4])))
                self.percent.append(_decimal(row[5]))
            elif counted := SUM.match(line):
                self.sums[counted[1]] = self.sums.get(counted[1], 0) + number_of(counted[2])
            elif NO_ROW.match(line) and (self.free or self.tables):
                raise NotThisText(f"freesp's text continues with {shown(line)!r}, which is none of its rows")
            elif COMPLAINT.match(line):
                self.complaints.append(line.strip())
            elif named := OF_GROUP.match(line):
                group = [number_of(named[1])]

    def _read_info(self, line: bytes) -> None:
        for pattern, names in OF_INFO:
            match = pattern.match(line)
            if match:
                self.superblock.update(zip(names, map(number_of, match.groups())))

    def check(self) -> None:
        """Raise NotThisText where rows are missing, or there are several texts."""
        rows = [row for table in self.tables for row in table]
        counted = {b"extents": sum(row.extents for row in rows), b"blocks": sum(row.blocks for row in rows)}
        listed = sum(blocks for _, _, blocks in self.free)
        if self.free and (counted[b"extents"], counted[b"blocks"]) != (len(self.free), listed):
            raise NotThisText(
                f"freesp lists {len(self.free)} free extents of {listed} blocks and counts {counted[b'extents']} of "
                f"{counted[b'blocks']} in the end: it was cut short, or digits are missing"
            )
        block_bytes = self.superblock.get(b"blocksize", BLOCK_BYTES)
        if block_bytes not in BLOCK_SIZES:
            raise NotThisText(f"it tells of blocks of {block_bytes} bytes, which no XFS has: digits are missing")
        for name, total in self.sums.items():
            if total != counted[name]:
                raise NotThisText(
                    f"freesp counts {total} free {name.decode()} in its last lines, and its rows {counted[name]}: rows "
                    "are missing"
                )
        percents = iter(self.percent)
        for table in [] if self.free else self.tables:
            total = sum(row.blocks for row in table)
            for row, percent in zip(table, percents):
                if abs(percent - 100 * row.blocks / max(1, total)) > PERCENT_STEP:
                    raise NotThisText(
                        f"freesp's row of {row.low} to {row.high} blocks has {row.blocks} of {total} blocks, and tells "
                        f"of {percent}%: digits or rows are missing"
                    )
        if not rows and self.complaints:
            raise NotThisText(f"the program failed, and says {shown(self.complaints[0])!r}")
        if not rows and not self.free and not self.sums:
            raise NotThisText("freesp's table has no row: no block is free, or it was cut short; run freesp -s")
        several = len(self.tables) > 1 and not self.free
        if len(set(self.free)) < len(self.free) or (several and len(set(self.groups)) < len(self.tables)):
            raise NotThisText(
                f"it has {len(self.tables)} texts of freesp, and does not say that each is of another group: give one "
                "at a time"
            )


def of_text(lines: Iterable[bytes], counting: Counting) -> Store:
    """The store in the output of xfs_db's `freesp`, of an XFS that is mounted nowhere, or of xfs_spaceman's.

    With -d it has each free extent, else how many there are by size; with -s their sum too; with -a of one group. What
    a text does not have of the superblock is unknown; only blocks are taken for 4 KiB. Raises NotThisText.
    """
    content = _Told()
    content.read(lines)
    content.check()
    lacking = [name for name in NEEDED if name not in content.superblock]
    if content.free and not lacking:
        return _of_list(content, counting)
    if not content.free and not content.tables:
        raise NotThisText(f"xfs_db lists no free extents: {ASK} does")
    rows = [row for table in content.tables for row in table]
    block_bytes = content.superblock.get(b"blocksize", BLOCK_BYTES)
    source = "freesp"
    if len(content.groups) == len(content.tables):
        groups = counted(len(content.tables), "group")
        source += f"; of {groups} ({runs_of(sorted(content.groups))}) only"
    if b"blocksize" in lacking:
        source += "; blocks are taken for 4 KiB, which it does not say"
    if content.free:
        rows = [Class(length, length, 1, length) for _, _, length in content.free]
    blocks = None if source.endswith("only") else content.superblock.get(b"dblocks")
    if blocks:
        source += _counted_elsewhere(content, sum(row.blocks for row in rows))
    store = of_classes("xfs", source, rows, block_bytes, blocks)
    store.absent["bitmap"] = f"freesp says nothing of where free extents lie; {ASK} does"
    if content.complaints:
        store.warnings = [_damaged(content.complaints[0])]
        store.unknown_bytes = int(store.found.get("device_bytes") or store.found["free_bytes"])
    return store


def _decimal(digits: bytes) -> float:
    """A number with a point, or with the comma of another language."""
    return float(digits.replace(b",", b"."))


def _damaged(complaint: bytes) -> str:
    return f"Damaged: xfs_db says {complaint.decode(errors='replace')[:120]!r}; {REPAIR}."


def _of_list(content: _Told, counting: Counting) -> Store:
    block_bytes, blocks, group_blocks = (content.superblock[name] for name in NEEDED)
    check_device(blocks, block_bytes)
    if not group_blocks:
        raise NotThisText("xfs_db tells of allocation groups of 0 blocks, which cannot be")
    for group, start, count in content.free:
        if not (count and start + count <= group_blocks and group * group_blocks + start + count <= blocks):
            raise NotThisText(f"freesp lists {count} free blocks at {start} of group {group}, where none can be")
    if content.is_of_db and not content.complaints:
        _check_all_listed(content.free, -(-blocks // group_blocks))
    sectors = [int(place[1], 16) for complaint in content.complaints if (place := AT_SECTOR.match(complaint))]
    bad = {sector * SECTOR_BYTES // (group_blocks * block_bytes) for sector in sectors}
    # The list has each group's own small reserve, the AGFL, before its tree.
    extents = (
        ((group * group_blocks + start) * block_bytes, count * block_bytes)
        for group, start, count in sorted(content.free)
        if group not in bad
    )
    geometry = Geometry(blocks * block_bytes, block_bytes, group_blocks * block_bytes)
    source = "xfs_db freesp (the log not replayed)" if content.is_of_db else "freesp"
    try:
        store = of_extents("xfs", source, KIND, geometry, extents, counting)
    except ValueError as error:
        raise NotThisText(f"xfs_db's list of free extents: {error}") from error
    store.absent["files"] = "freesp lists free space only"
    log = (content.superblock.get(name, 0) for name in (b"logblocks", b"logstart"))
    store.geometry = made(blocks, block_bytes, group_blocks, *log)
    store.geometry |= {key: content.superblock[name] for name, key in OF_MAKING.items() if content.superblock.get(name)}
    if not bad:
        store.source["free"] += _counted_elsewhere(content, sum(count for _, _, count in content.free))
    if content.complaints:
        store.warnings = [_damaged(content.complaints[0])]
        if bad:
            store.warnings.append(f"What is free in allocation groups {runs_of(sorted(bad))} is not known.")
        sizes = geometry.groups_bytes()
        store.unknown_bytes = sum(sizes[group] for group in bad if group < len(sizes)) or geometry.device_bytes
        if b"fdblocks" in content.superblock:
            listed_bytes = store.found["free_bytes"]
            counted = content.superblock[b"fdblocks"] * block_bytes
            store.found.update(usage(geometry.device_bytes, counted), free_bytes=listed_bytes)
            store.source["free"] += "; how full by the superblock"
    return store


def _counted_elsewhere(content: _Told, listed: int) -> str:
    """A note where the superblock counts more or less free blocks than are listed."""
    counted = content.superblock.get(b"fdblocks", listed)
    if abs(counted - listed) <= content.superblock[b"dblocks"] // 100:
        return ""
    return f"; the superblock counts {counted} free blocks, and freesp {listed} (taken)"


def _check_all_listed(free: list[tuple[int, int, int]], groups: int) -> None:
    """Raise NotThisText for a list of a part, as -a and -A give one: of each group xfs_db lists the AGFL at least."""
    lacking = sorted(set(range(groups)) - {group for group, _, _ in free})
    if lacking:
        parts = f"{counted(len(lacking), 'allocation group')} ({runs_of(lacking)})"
        raise NotThisText(f"xfs_db lists nothing of {parts}: run freesp without -a")
    step = math.gcd(*(start for _, start, _ in free))
    if step > 1:
        raise NotThisText(f"all that xfs_db lists begins at multiples of {step} blocks: run freesp without -A")


FRAG = re.compile(rb"actual (\d+), ideal (\d+), fragmentation factor ([0-9]+[.,][0-9]+)%")


def of_frag_text(lines: Iterable[bytes]) -> Store:
    """What `xfs_db -c frag` says of all files: extents by its trees' records, at best and as they are.

    Raises NotThisText.
    """
    found = [match for match in map(FRAG.match, lines) if match]
    if len(found) > 1:
        raise NotThisText(f"it has {len(found)} texts of frag: give one at a time")
    if not found:
        raise NotThisText("frag's line has no whole factor, such as 75.00%: it was cut short")
    actual, ideal = map(number_of, found[0].groups()[:2])
    factor = 100 * (actual - ideal) / actual if actual else 0.0
    if abs(factor - _decimal(found[0][3])) > 0.01:
        raise NotThisText(
            f"frag's factor is {found[0][3].decode()}%, and of {actual} and {ideal} extents {factor:.2f}%"
        )
    files: Json = {
        "files": ideal,
        "bytes": None,
        "extents": actual,
        "mean_extent_bytes": None,
        "layout_score": None,
        "extents_of_size": {},
        "extents_per_file": {},
    }
    source = {"files": "xfs_db frag (files are counted as extents that they would have at best)"}
    return Store("xfs", source, {"files": {"listed": files}}, without(OF_DEVICE, "frag tells of files only"))


def made(blocks: int, block_bytes: int, group_blocks: int, log_blocks: int, log_start: int) -> Json:
    """The sizes by which another one is made (fsage.layouts.geometry); `log_start`: 0 for an external log, or unknown.

    A block's number has the group's above as many bits as count the blocks of one (xfs_format.h, XFS_AGB_TO_FSB).
    """
    sizes = {"blocks": blocks, "block_bytes": block_bytes, "group_blocks": group_blocks}
    if log_start:
        sizes["log_blocks"] = log_blocks
        sizes["log_group"] = log_start >> (group_blocks - 1).bit_length()
    return sizes
