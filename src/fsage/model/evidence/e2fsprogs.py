"""Texts of e2fsprogs 1.42.7 and later: filefrag's of any number of files (how many extents, with -v also where), and
e2freefrag's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsage.model.evidence.files import FileLayouts
from fsage.model.evidence.fragmentation import Extent
from fsage.model.evidence.store import (
    MOST_BLOCK_BYTES,
    OF_DEVICE,
    NotThisText,
    Store,
    check_device,
    check_extents,
    number_of,
    without,
)

HEAD = re.compile(rb"File size of (.+) is \d+ \(\d+ blocks? of (\d+) bytes\)")
ROW = re.compile(rb" *\d+: +(\d+)\.\. *\d+: +(\d+)\.\. *\d+: +(\d+):(?: +\d+:)? *(\S*)")
END = re.compile(rb"(.+): (\d+) extents? found")
PLACELESS = {b"unknown_loc", b"delalloc", b"unknown"}
TITLE = b" ext:"


def of_filefrag_text(lines: Iterable[bytes]) -> Store:
    """How the listed files lie. Raises NotThisText.

    A file that filefrag could not map (on Lustre: one of several stripes) has a head only. `source` counts these files.
    A text that ends with one is refused, because it may have been cut.
    """
    layouts: FileLayouts | None = None
    name, pieces, block_bytes, unmapped, line = None, list[Extent](), 0, 0, b""
    for line in lines:
        if row := ROW.match(line):
            logical, physical, length = (number_of(number) * block_bytes for number in row.groups()[:3])
            flags = set(row[4].split(b","))
            if not flags & PLACELESS:
                pieces.append(Extent(logical, physical, length, b"unwritten" in flags))
                check_extents(len(pieces))
        elif head := HEAD.match(line):
            if pieces:
                raise NotThisText(f"filefrag's list of {_shown(name)} has no end: something is missing in the text")
            unmapped += name is not None
            name, block_bytes = head[1], number_of(head[2])
            if not 0 < block_bytes <= MOST_BLOCK_BYTES:
                raise NotThisText(f"filefrag counts {_shown(name)} in blocks of {block_bytes} bytes, which cannot be")
            layouts = layouts or FileLayouts(block_bytes)
            if block_bytes != layouts.block_bytes:
                raise NotThisText(
                    f"filefrag counts {_shown(name)} in blocks of {block_bytes} bytes, files before it in blocks of "
                    f"{layouts.block_bytes}: give the files of one file system at a time"
                )
        elif end := END.match(line):
            layouts = layouts or FileLayouts(None)
            if name == end[1]:
                layouts.add(pieces)
            else:
                layouts.add_number(number_of(end[2]))
            name, pieces = None, []
        elif line.startswith(b" ") and not line.startswith(TITLE):
            raise NotThisText(f"filefrag's text continues with {_shown(line[:60])!r}, which is no extent")
    if name is not None or not line.endswith(b"\n"):
        raise NotThisText(
            f"filefrag's text ends within {_shown(name or line)}: it was cut short, or this file cannot be mapped (on "
            "Lustre only files of one stripe can)"
        )
    if not layouts:
        raise NotThisText("filefrag's text names no file: it is of another version, or was cut short")
    source = "filefrag" + (f"; {unmapped} files could not be mapped" if unmapped else "")
    values = {"block_bytes": layouts.block_bytes, "files": {"listed": layouts.summary()}}
    return Store(None, {"files": source}, values, without(OF_DEVICE, "filefrag tells of files only"))


def _shown(name: bytes | None) -> str:
    return (name or b"").decode(errors="backslashreplace")


NUMBER = re.compile(rb"((?:Total|Free) blocks|(?:Max|Num)\. free extent|Blocksize|Chunksize|Free chunks): +(\d+)")
CLASS_ROW = re.compile(rb" *(\d+)([KMGT])\.\.\. +\d+[KMGT]- +: +(\d+) +(\d+) +")
UNITS = {b"K": 1 << 10, b"M": 1 << 20, b"G": 1 << 30, b"T": 1 << 40}
MOST_CLASSES = 64
NEEDED = (b"Blocksize", b"Total blocks", b"Free blocks", b"Num. free extent")


def of_e2freefrag_text(lines: Iterable[bytes]) -> Store:
    """What e2freefrag tells of a device. Raises NotThisText."""
    head: dict[bytes, int] = {}
    histogram: list[tuple[int, int, int]] = []
    for line in lines:
        if match := NUMBER.match(line):
            head[match[1]] = number_of(match[2])
        elif match := CLASS_ROW.match(line):
            if len(histogram) == MOST_CLASSES:
                raise NotThisText(f"e2freefrag's text lists more than {MOST_CLASSES} classes of extents")
            histogram.append((number_of(match[1]) * UNITS[match[2]], number_of(match[3]), number_of(match[4])))
    if lacking := [name.decode() for name in NEEDED if name not in head]:
        raise NotThisText(f"e2freefrag's text lacks {', '.join(lacking)}: it was cut short")
    block_bytes, blocks, free, extents = (head[name] for name in NEEDED)
    check_device(blocks, block_bytes)
    if free > blocks:
        raise NotThisText(f"e2freefrag's text has {free} free blocks of {blocks}")
    listed = sum(number for _, number, _ in histogram)
    if listed != extents:
        raise NotThisText(f"e2freefrag counts {extents} free extents and lists {listed} by size: it was cut short")
    free_bytes = free * block_bytes
    values: dict[str, object] = {
        "device_bytes": blocks * block_bytes,
        "block_bytes": block_bytes,
        "used_bytes": (blocks - free) * block_bytes,
        "free_bytes": free_bytes,
        "fullness_percent": 100 * (blocks - free) / blocks,
        "free_extents": {
            "count": extents,
            "largest_bytes": head.get(b"Max. free extent", 0) << 10,
            "mean_bytes": free_bytes / extents if extents else None,
            "histogram": [
                {"from_bytes": start, "extents": number, "bytes": count * block_bytes}
                for start, number, count in histogram
            ],
        },
    }
    absent = {
        "bitmap": "e2freefrag says nothing of where free extents lie; dumpe2fs does",
        "aligned_free_share": "e2freefrag counts free chunks only when run with -c",
        "groups": "e2freefrag says nothing of block groups; dumpe2fs does",
        "files": "e2freefrag lists no files",
    }
    if b"Chunksize" in head and b"Free chunks" in head and free_bytes:
        chunk_bytes = head[b"Chunksize"]
        values["aligned_free_share"] = {str(chunk_bytes): head[b"Free chunks"] * chunk_bytes / free_bytes}
    return Store("ext4", {"free": "e2freefrag"}, values, absent)
