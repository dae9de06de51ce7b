"""Texts of e2fsprogs from 2009 on.

filefrag tells of any number of files how many extents they have, with -v also where. e2freefrag counts free extents.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from fsage.base.sizes import counted
from fsage.layouts.classes import Class, of_classes, spread
from fsage.layouts.dumpe2fs import REPAIR
from fsage.layouts.fragmentation import Extent, FileLayouts
from fsage.layouts.store import (
    MOST_BLOCK_BYTES,
    OF_DEVICE,
    NotThisText,
    Store,
    check_device,
    check_extents,
    number_of,
    without,
)
from fsage.layouts.stream import check_whole

HEAD = re.compile(rb"File size of +(.+) is (\d+) \(\d+ blocks?(?: of|, blocksize) (\d+)(?: bytes)?\)")
OLD_HEAD = re.compile(rb"File size of .+ is \d+ \(\d+ blocks?\)$")  # older: with neither a size of a block nor rows
ROW = re.compile(rb" *(\d+): +(\d+)\.\. *(\d+): +(\d+)\.\. *(\d+): +(\d+):(?: +([0-9a-f]+):)? *(\S*)")
OLD_ROW = re.compile(rb" *(\d+) +(\d+) +(\d+)(?: +\d+)? +(\d+)(?: +([a-z_,]+))? *$")  # before 1.42.7
END = re.compile(rb"(.+): (\d+) extents? found")
FOUND = re.compile(rb"\d extents? found")
LAST = b"last"  # a flag since 1.43
EOF = b"eof"
PLACELESS = {b"unknown_loc", b"delalloc", b"unknown", b"inline"}
TOLD = (b"encoded", b"shared", b"unwritten", b"inline", b"delalloc", b"unknown_loc")
FLAGS = re.compile(rb" *((?:last|eof|unwritten|unknown_loc|delalloc|encoded|not_aligned|inline|shared|merged|,)+) *$")
"""What mail wrapped of a row."""
LIKE_A_ROW = re.compile(rb"\s*\d+(?::|\s*$|\s+\d)|.*\d\.\. *\d|.*(?:File size of |extents? found)")
"""A line that was bent, so that what it tells is lost."""
TITLE = re.compile(rb" ?ext:? ")
OF_DEVICES = b"dev:"
FAILED = re.compile(
    rb".*(?:Permission denied|No such file|[Uu]nsupported|not supported|Invalid argument|FIEMAP failed)"
)


@dataclass
class _File:
    """A file whose rows are read: its extents that have a place, the device of each, and the flags of its last row."""

    name: bytes
    size: bytes
    block_bytes: int
    rows: int = 0
    extents: list[Extent] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    flags: list[bytes] = field(default_factory=list)

    def add(self, line: bytes, numbers: list[int], device: bytes, flags: list[bytes]) -> None:
        """Take a row. Raises NotThisText."""
        number, begin, end, place, last, length = numbers
        if number != self.rows:
            raise NotThisText(f"filefrag lists extent {number} of {_shown(self.name)} where {self.rows} should be")
        self.rows += 1
        self.flags = flags
        if PLACELESS.intersection(flags):
            return
        if (end - begin, last - place) != (length - 1, length - 1):
            raise NotThisText(
                f"filefrag's row {_shown(line.strip())!r} does not add up: is it hexadecimal (-X), or the cache (-E)? "
                "Run filefrag -v"
            )
        size = self.block_bytes
        self.extents.append(Extent(begin * size, place * size, length * size, False))
        self.devices.append(device.decode())
        check_extents(len(self.extents))

    def check_ended(self) -> None:
        """Raise NotThisText where another file follows in the middle of this one."""
        if self.extents:
            raise NotThisText(f"filefrag's list of {_shown(self.name)} has no end: something is missing in the text")


def of_filefrag_text(lines: Iterable[bytes]) -> Store:
    """How the listed files lie. Raises NotThisText.

    A file that filefrag could not map (on Lustre: one of several stripes) has a head only. `source` counts these files,
    flags that say what places mean, and files of which the last line counts other than its rows. The last line of a
    version before 1.43 counts what lies behind a hole; that of a later one does not (misc/filefrag.c). A text that ends
    with a head is refused, because it may have been cut.
    """
    told = _Filefrag()
    of_devices = False
    line = b""
    for line in lines:
        check_whole(line)
        row = _row(line)
        if row:
            numbers, device, flags = row
            if not told.file:
                raise NotThisText(
                    f"filefrag lists extent {_shown(line.strip())[:60]!r} below no `File size of ...`, which has the "
                    "size of a block: give the whole text"
                )
            told.flags.update(flags)
            told.file.add(line, numbers, device if of_devices else b"", flags)
        elif told.file and told.file.rows and (wrapped := FLAGS.match(line)):
            told.add_flags(told.file, wrapped[1].split(b","))
        elif head := HEAD.match(line.lstrip()):
            told.begin(_File(head[1], head[2], number_of(head[3])))
        elif len(FOUND.findall(line)) > 1:
            raise NotThisText(f"filefrag's lines stand on one, {_shown(line[:60])!r}: give the program's own text")
        elif end := END.match(line.lstrip()):
            told.end(end[1], number_of(end[2]))
        elif TITLE.match(line):
            of_devices = OF_DEVICES in line
        elif FAILED.match(line):
            told.failed.append(_shown(line.strip())[:100])
        elif LIKE_A_ROW.match(line) and not OLD_HEAD.match(line):
            raise NotThisText(f"filefrag's text continues with {_shown(line[:60])!r}, which is no extent")
    if told.file or not (line.endswith(b"\n") or END.match(line)):
        name = told.file.name if told.file else line
        raise NotThisText(
            f"filefrag's text ends within {_shown(name)}: it was cut short, or this file cannot be mapped (on Lustre "
            "only files of one stripe can)"
        )
    if not told.names:
        raise NotThisText("filefrag's text names no file: run `filefrag -v FILE ...`")
    source = "; ".join(["filefrag", *told.notes()])
    values = {"block_bytes": told.block_bytes, "files": {"listed": told.summary()}}
    return Store(None, {"files": source}, values, without(OF_DEVICE, "filefrag tells of files only"))


class _Filefrag(FileLayouts):
    """The files of a text; `file`: the one at hand. All raise NotThisText."""

    def __init__(self) -> None:
        super().__init__(None)
        self.file: _File | None = None
        self.names: set[int] = set()
        self.flags = Counter[bytes]()
        self.files = Counter[str]()  # by what is said of them
        self.failed: list[str] = []
        self.differing: list[str] = []

    def begin(self, file: _File) -> None:
        """A file begins."""
        if self.file:
            self.file.check_ended()
            self.files["could not be mapped"] += 1
        self.file = file
        counts = f"filefrag counts {_shown(file.name)} in blocks of {file.block_bytes} bytes"
        if not 0 < file.block_bytes <= MOST_BLOCK_BYTES:
            raise NotThisText(f"{counts}, which cannot be")
        self.block_bytes = self.block_bytes or file.block_bytes
        if file.block_bytes != self.block_bytes:
            raise NotThisText(
                f"{counts}, files before it in blocks of {self.block_bytes}: give the files of one file system at a "
                "time"
            )

    def add_flags(self, file: _File, flags: list[bytes]) -> None:
        """Flags of its last row, which mail put on a line of their own."""
        self.flags.update(flags)
        file.flags += flags
        if file.extents and PLACELESS.intersection(flags):
            file.extents.pop()
            file.devices.pop()

    def end(self, name: bytes, count: int) -> None:
        """A file ends, whose last line counts so many extents."""
        if hash(name) in self.names:
            raise NotThisText(f"filefrag lists {_shown(name)} twice: give one text at a time")
        self.names.add(hash(name))
        file = self.file
        self.file = None
        if file and file.name != name:
            file.check_ended()
        elif file and (file.rows or not count):
            found = self.add(file.extents, file.devices)
            has_last = LAST in file.flags or (EOF in file.flags and not self.flags[LAST])
            if file.rows and not has_last and (self.flags[LAST] or found != count):
                raise NotThisText(f"filefrag's list of {_shown(name)} ends before its last extent: rows are missing")
            if not count and file.size != b"0":
                self.files["of more than 0 bytes without an extent: a hole, or filefrag -x or -E"] += 1
            if found != count:
                self.differing.append(f"{_shown(name)} has {found} by its rows and {count} by its last line")
            return
        self.add_number(count)

    def notes(self) -> list[str]:
        """What the text says besides."""
        notes = [f"{counted(self.flags[flag], 'extent')} {flag.decode()}" for flag in TOLD if self.flags[flag]]
        if self.flags[b"encoded"]:
            self.has_score = False
            notes.append("of the encoded ones (compressed, encrypted) length and place are not those of the data")
        if len(self.devices) > 1:
            notes.append(f"on {len(self.devices)} devices, extents counted on each")
        notes += [f"{counted(number, 'file')} {says}" for says, number in self.files.items()]
        if self.failed:
            notes.append(f"{counted(len(self.failed), 'file')} could not be read, the first: {self.failed[0]}")
        if self.differing:
            files = counted(len(self.differing), "file")
            notes.append(f"of {files} two numbers of extents are told: {self.differing[0]}")
        return notes


def _row(line: bytes) -> tuple[list[int], bytes, list[bytes]] | None:
    """The number of an extent, first and last block in the file and on the device, length; device and flags."""
    row = ROW.match(line)
    if row:
        return list(map(number_of, row.groups()[:6])), row[7] or b"", row[8].split(b",")
    row = OLD_ROW.match(line)
    if row:
        number, begin, place, length = map(number_of, row.groups()[:4])
        numbers = [number, begin, begin + length - 1, place, place + length - 1, length]
        return numbers, b"", (row[5] or b"").split(b",")
    return None


def _shown(name: bytes) -> str:
    return name.decode(errors="backslashreplace")


NUMBER = re.compile(
    rb"((?:Total|Free) blocks|(?:Min|Max|Avg|Num)\.? free (?:extent|chunk)|Blocksize|Chunksize|Free chunks): +(\d+)"
)
CLASS_ROW = re.compile(rb" *(\d+)([KMGTP]) *\.\.\. *(?:(\d+)([KMGTP])-|max) +: +(\d+)(?: +(\d+) +[0-9.,]+%)?")
UNITS = {b"K": 1 << 10, b"M": 1 << 20, b"G": 1 << 30, b"T": 1 << 40, b"P": 1 << 50}
COMPLAINT = re.compile(rb".*(?:does not match|while (?:reading|trying|opening)|[Bb]ad magic|[Cc]orrupt|[Pp]ermission)")
BIGALLOC = "it has feature bigalloc, whose clusters e2freefrag misreads unless it is mounted (run dumpe2fs)"
NEEDED = (b"Blocksize", b"Total blocks", b"Free blocks")


def _of_e2freefrag(lines: Iterable[bytes]) -> tuple[dict[bytes, int], list[tuple[int, int, int, int]], bytes]:
    """Its numbers by name; of each class from and to how many bytes, extents, blocks (-1: not told); a complaint."""
    head: dict[bytes, int] = {}
    rows: list[tuple[int, int, int, int]] = []
    complaint = b""
    for line in lines:
        match = NUMBER.match(line)
        if match:
            name = match[1]
            if b" free " in name:
                name = name.replace(b".", b"").replace(b"chunk", b"extent")
            if name in head:
                raise NotThisText("it has two texts of e2freefrag, or of another program too: give one at a time")
            head[name] = number_of(match[2])
        elif match := CLASS_ROW.match(line):
            low = number_of(match[1]) * UNITS[match[2]]
            high = number_of(match[3]) * UNITS[match[4]] if match[3] else 1 << 62
            rows.append((low, high, number_of(match[5]), -1 if match[6] is None else number_of(match[6])))
        elif COMPLAINT.match(line):
            complaint = line
    lacking = [name.decode() for name in NEEDED if name not in head]
    if lacking and complaint:
        raise NotThisText(f"e2freefrag could not read the file system: it says {_shown(complaint.strip())!r}")
    if lacking:
        raise NotThisText(
            f"e2freefrag's text lacks {', '.join(lacking)}: its beginning is missing, or it was cut short"
        )
    listed = sum(number for _, _, number, _ in rows)
    extents = head.get(b"Num free extent", listed)
    if listed != extents:
        raise NotThisText(f"e2freefrag counts {extents} free extents and its rows list {listed}: rows are missing")
    return head, rows, complaint


def of_e2freefrag_text(lines: Iterable[bytes]) -> Store:
    """What e2freefrag tells of a device. Raises NotThisText.

    The histogram is of the bitmaps, of a mounted ext4 of the kernel's list. `Free blocks` is the superblock's count,
    stale while it is mounted, where the kernel was not asked (scan_offline, misc/e2freefrag.c). So the histogram is
    taken, and a count that differs is named. The first version (July 2009) has no blocks of the classes, and an average
    that is not that of its rows; `Num. free extent` came in 2010.
    """
    head, rows, complaint = _of_e2freefrag(lines)
    block_bytes, blocks, free = (head[name] for name in NEEDED)
    check_device(blocks, block_bytes)
    if free > blocks:
        raise NotThisText(f"e2freefrag's text has {free} free blocks of {blocks}")
    largest = head.get(b"Max free extent", 0) << 10
    if free and head.get(b"Num free extent") == 0:
        raise NotThisText(f"e2freefrag counts {free} free blocks and no free extent: {BIGALLOC}")
    if (free and not rows) or len({row[-1] < 0 for row in rows}) > 1:
        raise NotThisText("e2freefrag's histogram is missing, or its last row is cut short")
    if rows and largest and not rows[-1][0] <= largest < rows[-1][1]:
        raise NotThisText(
            f"e2freefrag's largest free extent has {largest >> 10} KB, and its last row is of another size: rows are "
            "missing"
        )
    sizes = [(max(1, low // block_bytes), max(1, high // block_bytes - 1), number) for low, high, number, _ in rows]
    largest //= block_bytes
    if rows and largest:
        low, _, number = sizes[-1]
        sizes[-1] = largest if number == 1 else low, largest, number
    source = "e2freefrag"
    if any(listed < 0 for *_, listed in rows):
        classes = spread(sizes, free)
        source += " (of 2009: how many blocks extents of each size have is reckoned)"
    else:
        classes = [Class(*size, listed) for size, (*_, listed) in zip(sizes, rows)]
    listed = sum(row.blocks for row in classes)
    if free != listed < blocks and not any(row.blocks % 16 for row in classes):
        raise NotThisText(f"e2freefrag counts {free} free blocks, its rows {listed} in sixteens: {BIGALLOC}")
    if listed != free:
        source += f"; its head counts {free} free blocks (the superblock's), its rows {listed} (the bitmaps', taken)"
        source += f": it is mounted, or damaged, or {BIGALLOC}"
    extents = sum(row.extents for row in classes)
    mean = listed * block_bytes / extents / 1024 if extents else 0
    average = head.get(b"Avg free extent", mean)
    if abs(average - mean) > block_bytes / 1024:
        source += f"; its head has an average of {average} KB, its rows of {mean:.0f} KB (taken)"
    store = of_classes("ext4", source, classes, block_bytes, blocks, largest)
    if complaint or listed >= blocks:
        says = "has all blocks free, the superblock's too"
        if complaint:
            says = f"says {_shown(complaint.strip())[:100]!r}"
        store.warnings = [f"Damaged: e2freefrag {says}; {REPAIR}."]
        store.unknown_bytes = blocks * block_bytes
    store.absent["aligned_free_share"] = "e2freefrag counts free chunks only when run with -c"
    if b"Chunksize" in head and b"Free chunks" in head and listed:
        chunk_bytes = head[b"Chunksize"]
        store.found["aligned_free_share"] = {
            str(chunk_bytes): head[b"Free chunks"] * chunk_bytes / (listed * block_bytes)
        }
    return store
