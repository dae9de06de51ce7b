"""The text of e2freefrag (e2fsprogs 1.41 and later): free extents by size, no places."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsage.model.evidence.store import NotThisText, Store, check_device, number_of

NUMBER = re.compile(rb"((?:Total|Free) blocks|(?:Max|Num)\. free extent|Blocksize|Chunksize|Free chunks): +(\d+)")
ROW = re.compile(rb" *(\d+)([KMGT])\.\.\. +\d+[KMGT]- +: +(\d+) +(\d+) +")
UNITS = {b"K": 1 << 10, b"M": 1 << 20, b"G": 1 << 30, b"T": 1 << 40}
MOST_CLASSES = 64
NEEDED = (b"Blocksize", b"Total blocks", b"Free blocks", b"Num. free extent")


def of_text(lines: Iterable[bytes]) -> Store:
    """What e2freefrag tells of a device. Raises NotThisText."""
    head: dict[bytes, int] = {}
    histogram: list[tuple[int, int, int]] = []
    for line in lines:
        if match := NUMBER.match(line):
            head[match[1]] = number_of(match[2])
        elif match := ROW.match(line):
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
