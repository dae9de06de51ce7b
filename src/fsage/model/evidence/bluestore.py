"""The free extents of an OSD of Ceph: `ceph daemon osd.N bluestore allocator dump block` (Allocator.cc), JSON.

It is read word by word: there are millions. Before Ceph 16 it has no capacity; then the device ends with the last free
extent, at least.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import Geometry, NotThisText, Store, check_device, of_extents

HEAD = re.compile(rb'"(?:alloc_type|alloc_name|extents)":')
WORD = re.compile(rb'"(capacity|alloc_unit|offset|length)": ?(?:"0x([0-9a-f]{1,16})"|(\d{1,19})(?=[,\s}]))')
MOST_EXTENTS = 20_000_000
UNIT_BYTES = 4096
GROUP_BYTES = 128 << 20


def of_text(lines: Iterable[bytes], counting: Counting = ONCE) -> Store:
    """The store that the text tells of. Raises NotThisText."""
    head: dict[bytes, int] = {}
    starts = list[int]()
    lengths = list[int]()
    line = b""
    opened = b""
    has_head = False
    for line in lines:
        opened = opened or line.strip()[:1]
        has_head = has_head or bool(HEAD.search(line))
        for name, hexadecimal, decimal in WORD.findall(line):
            if hexadecimal:
                number = int(hexadecimal, 16)
            else:
                number = int(decimal)
            if name == b"offset":
                starts.append(number)
            elif name == b"length":
                lengths.append(number)
            elif name in head:
                raise NotThisText("it has two allocator dumps: give one at a time")
            else:
                head[name] = number
    end = b"]" if opened == b"[" else b"}"  # before Ceph 16 it is a list alone
    if len(starts) != len(lengths) or not line.rstrip().endswith(end):
        raise NotThisText("the allocator dump has no end: it was cut short")
    if has_head and b"capacity" not in head:
        raise NotThisText("the allocator dump has no capacity: its beginning is missing")
    if len(starts) > MOST_EXTENTS:
        raise NotThisText(f"it has {len(starts):,} free extents; read are {MOST_EXTENTS:,} at most")
    extents = sorted(zip(starts, lengths))
    unit = head.get(b"alloc_unit", UNIT_BYTES)
    device_bytes = head.get(b"capacity", 0)
    source = "bluestore's allocator"
    if not device_bytes:
        device_bytes = sum(extents[-1]) if extents else 0
        source += "; it does not say how large the device is, so it ends with the last free extent"
    check_device(device_bytes // unit if unit else 0, unit)
    geometry = Geometry(device_bytes, unit, GROUP_BYTES)
    try:
        store = of_extents("bluestore", source, "part of 128 MiB", geometry, extents, counting)
    except ValueError as error:
        raise NotThisText(f"the allocator dump: {error}") from error
    store.absent["files"] = "an allocator dump lists free space only"
    return store
