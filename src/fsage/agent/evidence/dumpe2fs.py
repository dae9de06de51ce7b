"""The text of dumpe2fs, read line by line and not kept: the memory needed does not grow with the device."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fsage.agent.evidence.freespace import ONCE, Counting, FreeSpace
from fsage.agent.evidence.groups import Groups
from fsage.agent.evidence.store import (
    MOST_BLOCK_BYTES,
    OF_EXTENTS,
    NotThisText,
    Store,
    check_device,
    number_of,
    without,
)

FIELD = re.compile(rb"([A-Z][^:]*): +(\S.*)")
GROUP = re.compile(rb"Group (\d+): \(Blocks (\d+)-(\d+)\)")
COUNTS = re.compile(rb"  (\d+) free (?:blocks|clusters), (\d+) free inodes")
FREE = b"  Free blocks: "
NEEDED = (b"Block count", b"Block size", b"First block", b"Blocks per group", b"Inodes per group", b"Free blocks")
CLUSTER = b"Cluster size"
PART_BYTES = 1 << 14  # of a list, looked at together
OF_LISTS = b"0123456789-, "


class Header(NamedTuple):
    """What the superblock says; `free_blocks` as of the last umount, `cluster_blocks` more than 1 with bigalloc."""

    blocks: int
    block_bytes: int
    first_block: int
    group_blocks: int
    group_inodes: int
    free_blocks: int
    cluster_blocks: int


def of_text(lines: Iterable[bytes], counting: Counting = ONCE) -> Store:
    """The store that the text tells of. Raises NotThisText.

    `dumpe2fs -h` gives the header alone; then what needs groups is absent.
    """
    lines = iter(lines)
    header, first_group = read_header(lines)
    block_bytes, device_bytes = header.block_bytes, header.blocks * header.block_bytes
    found: dict[str, Any] = {"device_bytes": device_bytes, "block_bytes": block_bytes}
    absent = {"files": "dumpe2fs lists no files"}
    if first_group is None:
        found["free_bytes"] = header.free_blocks * block_bytes
        found["used_bytes"] = device_bytes - found["free_bytes"]
        found["fullness_percent"] = 100 * found["used_bytes"] / device_bytes
        absent.update(without((*OF_EXTENTS, "groups"), "dumpe2fs -h lists no groups"))
        return Store("ext4", {"free": "dumpe2fs -h (the superblock's count, of the last umount)"}, found, absent)
    reader = _Groups(header, FreeSpace(device_bytes, block_bytes, counting))
    reader.read(first_group, lines)
    try:
        found.update(reader.free.summary())
    except ValueError as error:
        raise NotThisText(f"dumpe2fs' lists of free blocks: {error}") from error
    found["groups"] = reader.groups.summary()
    source = "dumpe2fs (block bitmaps)"
    if reader.disagreeing:
        source += f"; {reader.disagreeing} groups list more or less free than they count: in use while it was read"
    return Store("ext4", {"free": source}, found, absent)


def read_header(lines: Iterator[bytes]) -> tuple[Header, bytes | None]:
    """The header, and the line with which the first group begins, None where there is none. Raises NotThisText."""
    found: dict[bytes, bytes] = {}
    first_group, line = None, b""
    for line in lines:
        if GROUP.match(line):
            first_group = line
            break
        if (match := FIELD.match(line)) and match[1] in (*NEEDED, CLUSTER):
            found[match[1]] = match[2].strip()
    if lacking := [name.decode() for name in NEEDED if name not in found]:
        raise NotThisText(f"the header of dumpe2fs lacks {', '.join(lacking)}: not its text, or cut short")
    if first_group is None and line != b"\n":  # what both `dumpe2fs` and `dumpe2fs -h` write below the header
        raise NotThisText("the header of dumpe2fs has no end: it was cut short")
    try:
        blocks, block_bytes, first, in_group, inodes, free = (number_of(found[name]) for name in NEEDED)
        check_device(blocks, block_bytes)
        cluster_blocks = number_of(found.get(CLUSTER, b"%d" % block_bytes)) // block_bytes
        if in_group <= 0 or max(first, free) > blocks or not 0 < cluster_blocks * block_bytes <= MOST_BLOCK_BYTES:
            raise ValueError(f"{free} free of {blocks} blocks from {first} on, {in_group} a group")
    except ValueError as error:
        raise NotThisText(f"the header of dumpe2fs has numbers that cannot be: {error}") from error
    return Header(blocks, block_bytes, first, in_group, inodes, free, cluster_blocks), first_group


class _Groups:
    """The part of the text that lists groups."""

    def __init__(self, header: Header, free: FreeSpace) -> None:
        self.header, self.free, self.groups = header, free, Groups("block group")
        self.cluster_bytes = header.cluster_blocks * header.block_bytes
        self.disagreeing = 0

    def read(self, line: bytes, lines: Iterable[bytes]) -> None:
        """Read all groups, the first of which begins with `line`. Raises NotThisText."""
        size_bytes = self._begin(line, 0)
        counts = free_bytes = None
        for line in lines:
            if line.startswith(FREE):
                free_bytes = self._free(line)
            elif line.startswith(b"Group "):
                self._end(size_bytes, counts, free_bytes)
                counts = free_bytes = None
                size_bytes = self._begin(line, self.groups.count)
            elif b" free inodes, " in line:
                counts = COUNTS.match(line)
        self._end(size_bytes, counts, free_bytes)
        expected = -(-(self.header.blocks - self.header.first_block) // self.header.group_blocks)
        if self.groups.count > expected:
            raise NotThisText(f"dumpe2fs' text has {self.groups.count} groups, and its header has room for {expected}")
        if self.groups.count < expected or not line.endswith(b"\n"):
            raise NotThisText(f"dumpe2fs' text ends with group {self.groups.count - 1} of {expected}: it was cut short")

    def _begin(self, line: bytes, number: int) -> int:
        match = GROUP.match(line)
        if not match or number_of(match[1]) != number:
            raise NotThisText(f"dumpe2fs' text goes on with {line[:60]!r} where group {number} should begin")
        blocks = number_of(match[3]) - number_of(match[2]) + 1
        if not 0 < blocks <= self.header.blocks:
            raise NotThisText(f"dumpe2fs' text has a group {number} of {blocks} blocks")
        return blocks * self.header.block_bytes

    def _free(self, line: bytes) -> int:
        """Count the runs in a list such as `9305-32767, 33000`; return their bytes. Clusters go by first blocks.

        A line of 7 MB has a million, so it is looked at part by part.
        """
        block_bytes, more_bytes = self.header.block_bytes, self.cluster_bytes
        at, end, free_bytes = len(FREE), len(line.rstrip(b"\n")), 0
        try:
            while at < end:
                stop = line.find(b", ", at + PART_BYTES)
                stop = end if stop < 0 else stop
                part = line[at:stop]
                if part.translate(None, OF_LISTS):
                    raise ValueError(f"{line[at : at + 20]!r} is no run of blocks")
                runs = part.decode().split(", ")
                numbers = list(map(int, "-".join([run if "-" in run else f"{run}-{run}" for run in runs]).split("-")))
                if len(numbers) != 2 * len(runs):
                    raise ValueError(f"{part[:40]!r} ... has a run of more than two blocks")
                starts = [number * block_bytes for number in numbers[::2]]
                lengths = [last * block_bytes + more_bytes for last in map(operator.sub, numbers[1::2], numbers[::2])]
                free_bytes += self.free.add_all(starts, lengths)
                at = stop + len(", ")
        except ValueError as error:
            raise NotThisText(
                f"dumpe2fs' list of free blocks in group {self.groups.count}, or one before: {error}"
            ) from error
        return free_bytes

    def _end(self, size_bytes: int, counts: re.Match[bytes] | None, free_bytes: int | None) -> None:
        if counts is None or free_bytes is None:
            raise NotThisText(f"dumpe2fs lists no free blocks for group {self.groups.count}: the text was cut short")
        self.disagreeing += number_of(counts[1]) * self.cluster_bytes != free_bytes
        self.groups.add(size_bytes, free_bytes, self.header.group_inodes, number_of(counts[2]))
