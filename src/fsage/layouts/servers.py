"""What servers tell of their stores in a text: Lustre how full its OSTs are, an OSD of Ceph its free extents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from fsage.layouts.freespace import Counting, usage
from fsage.layouts.store import OF_EXTENTS, Geometry, NotThisText, Store, check_device, of_extents, without

LINE = re.compile(r"(\S+?)(?:_UUID)?\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(\d+%|-)\s+\S+\[(OST|MDT):(\d{1,9})\].*")
SUMMARY = re.compile(r"filesystem[_ ]summary: +(\d{1,19}) +(\d{1,19}) ")
LFS_DF_HEAD = "UUID "
KIB = "1K-blocks"
SILENT = re.compile(r"(\S*(?:OST|MDT)[0-9a-f]{4})(?:_UUID)?\s*: (.*)")
OF_TARGET = re.compile(r"(?:OST|MDT)[0-9a-f]{4}(?:_UUID)?\b|\[(?:OST|MDT):")
INACTIVE = re.compile(r"(\S+)\s*: inactive device")
"""An OST that was deactivated, as one is that was removed for ever; one that only does not answer has another word."""


class Ost(NamedTuple):
    """One OST; `available_bytes` is what clients may still write, without the reserve of ldiskfs."""

    name: str
    number: int
    total_bytes: int
    used_bytes: int
    available_bytes: int


class Silent(NamedTuple):
    """A target of the file system that did not tell how full it is (`OST0001`), and the error that came instead."""

    name: str
    why: str

    @property
    def number(self) -> int | None:
        """Number of an OST; None for an MDT, which everybody needs."""
        match = re.search(r"OST([0-9a-f]{4})$", self.name)
        if match:
            return int(match[1], 16)
        return None


class Read(NamedTuple):
    """The OSTs by number, the names of the deactivated ones, and who did not answer."""

    osts: list[Ost]
    inactive: list[str]
    silent: list[Silent]

    def all_osts(self) -> list[Ost]:
        """The OSTs. Raises NotThisText where one, or an MDT, did not answer."""
        if self.silent:
            silent = "; ".join(f"{target.name} : {target.why}" for target in self.silent)
            raise NotThisText(f"`lfs df` could not ask every target: {silent}")
        return self.osts


def parse_lfs_df(lines: Iterable[str]) -> Read:
    """What `lfs df` prints, KiB, from 1.8 (`filesystem summary:`) to 2.17. Raises NotThisText."""
    osts = list[Ost]()
    inactive = list[str]()
    silent = list[Silent]()
    summary = None
    for line in map(str.rstrip, lines):
        match = LINE.fullmatch(line)
        if match:
            if match[6] == "OST":
                total, used, available = (int(match[number]) * 1024 for number in (2, 3, 4))
                if not 0 < total >= used:
                    raise NotThisText(f"`lfs df` has {used} bytes used of {total} on {match[1]}, which cannot be")
                osts.append(Ost(match[1], int(match[7]), total, used, available))
        elif match := SUMMARY.match(line):
            if summary is not None:
                raise NotThisText("`lfs df` tells of several file systems: run `lfs df MOUNT` for one of them")
            summary = int(match[1]) * 1024
        elif match := INACTIVE.match(line):
            inactive.append(match[1])
        elif line.startswith(LFS_DF_HEAD) and KIB not in line:
            raise NotThisText("`lfs df` counts inodes (-i) or rounds (-h): run `lfs df` without them")
        elif match := SILENT.match(line):
            silent.append(Silent(match[1], " ".join(match[2].split())))
        elif OF_TARGET.search(line):
            raise NotThisText(f"`lfs df` continues with {line[:60]!r}, which is no whole line of a target")
    if not (osts or silent) or summary is None:
        raise NotThisText(f"`lfs df` named {len(osts)} OSTs and {'no' if summary is None else 'a'} summary: cut short")
    if not silent and abs(summary - sum(ost.total_bytes for ost in osts)) > 1024 * (len(osts) + 1):
        raise NotThisText(f"`lfs df` named {len(osts)} OSTs, and its summary has {summary} bytes: lines are missing")
    return Read(sorted(osts, key=lambda ost: ost.number), inactive, silent)


def of_lfs_df_text(lines: Iterable[bytes]) -> Store:
    """The totals of all OSTs as one store; the fullest is named. Raises NotThisText."""
    words = [line.decode(errors="replace").rstrip() for line in lines]
    read = parse_lfs_df(words)
    osts = read.all_osts()
    percents = {match[1]: match[5] for match in map(LINE.fullmatch, words) if match}
    total = sum(ost.total_bytes for ost in osts)
    used = sum(ost.used_bytes for ost in osts)
    fullest = max(osts, key=lambda ost: ost.used_bytes / ost.total_bytes)
    source = f"lfs df; it has {len(osts)} OSTs, the fullest is {fullest.name} ({percents[fullest.name]})"
    if read.inactive:
        source += f"; deactivated and left out: {', '.join(read.inactive)}"
    values = {"device_bytes": total, "block_bytes": 1024, **usage(total, total - used)}
    why = "lfs df tells totals only; `fsage evidence` of an OST's device, on its server, tells how free space lies"
    return Store("lustre", {"free": source}, values, without((*OF_EXTENTS, "groups", "files"), why))


BLUESTORE_HEAD = re.compile(rb'"(?:alloc_type|alloc_name|extents)":')
CLOSED = re.compile(rb"[\s\]}]*[\]}]\s*$")
WORD = re.compile(rb'"(capacity|alloc_unit|offset|length)": ?(?:"0x([0-9a-f]{1,16})"|(\d{1,19})(?=[,\s}]))')
MOST_EXTENTS = 20_000_000
UNIT_BYTES = 4096
GROUP_BYTES = 128 << 20


def of_bluestore_text(lines: Iterable[bytes], counting: Counting) -> Store:
    """The store of `ceph daemon osd.N bluestore allocator dump block` (Allocator.cc). Raises NotThisText.

    It is JSON, and read word by word: there are millions. Before Ceph 16 it has no capacity; then the device ends with
    the last free extent, at least.
    """
    head: dict[bytes, int] = {}
    starts = list[int]()
    lengths = list[int]()
    last = b""
    has_head = False
    for line in lines:
        has_head = has_head or bool(BLUESTORE_HEAD.search(line))
        words = WORD.findall(line)
        if words or CLOSED.match(line):  # what else stands behind the dump, a shell wrote
            last = line
        for name, hexadecimal, decimal in words:
            number = int(hexadecimal, 16) if hexadecimal else int(decimal)
            if name == b"offset":
                starts.append(number)
            elif name == b"length":
                lengths.append(number)
            elif name in head:
                raise NotThisText("it has two allocator dumps: give one at a time")
            else:
                head[name] = number
    end = b"}" if has_head else b"]"  # before Ceph 16 it is a list alone
    if len(starts) != len(lengths) or not last.rstrip().endswith(end):
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
