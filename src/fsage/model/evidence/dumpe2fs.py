"""The text of dumpe2fs, read block by block and not kept: the memory needed does not grow with the device."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fsage.model import geometry
from fsage.model.evidence import freespace
from fsage.model.evidence.freespace import ONCE, Counting
from fsage.model.evidence.store import OF_EXTENTS, NotThisText, Store, check_device, number_of, without
from fsage.model.evidence.text import LINE_BYTES, Text
from fsage.model.typed import Json

FIELD = re.compile(rb"([A-Z][^:]*):[ \t]+(\S.*)")
BEGINS = re.compile(rb"Group (\d+): \(Blocks \d+-\d+\)")
# Of a group its number, first and last block, free blocks and inodes counted, and the blocks listed.
GROUP = re.compile(
    rb"Group (\d{1,19}): \(Blocks (\d{1,19})-(\d{1,19})\).*\n"
    rb"(?:  .*\n)*?"
    rb"  (\d{1,19}) free (?:blocks|clusters), (\d{1,19}) free inodes.*\n"
    rb"  Free blocks: (.*)\n"
    rb"(?:[^G\n].*\n|\n)*"
)
PARTS = GROUP.groups + 1  # of each match, with what is before it
NEXT = b"\nGroup "
NEEDED = (b"Block count", b"Block size", b"First block", b"Blocks per group", b"Inodes per group", b"Free blocks")
CLUSTER = b"Cluster size"
MOST_BLOCK_BYTES = 1 << 16  # EXT2_MAX_BLOCK_SIZE, e2fsprogs' ext2_fs.h
MOST_CLUSTER_BYTES = 1 << 29  # EXT2_MAX_CLUSTER_SIZE


class Header(NamedTuple):
    """What the superblock says; `free_blocks` as of the last umount, `cluster_blocks` more than 1 with bigalloc."""

    blocks: int
    block_bytes: int
    first_block: int
    group_blocks: int
    group_inodes: int
    free_blocks: int
    cluster_blocks: int
    geometry: Json | None


def of_text(text: Text, counting: Counting = ONCE) -> Store:
    """The store that the text tells of. Raises NotThisText.

    `dumpe2fs -h` gives the header alone; then what needs groups is absent.
    """
    header, first_group = read_header(text)
    block_bytes, device_bytes = header.block_bytes, header.blocks * header.block_bytes
    values: Json = {"device_bytes": device_bytes, "block_bytes": block_bytes}
    absent = {"files": "dumpe2fs lists no files"}
    if first_group is None:
        values["free_bytes"] = header.free_blocks * block_bytes
        values["used_bytes"] = device_bytes - values["free_bytes"]
        values["fullness_percent"] = 100 * values["used_bytes"] / device_bytes
        absent.update(without((*OF_EXTENTS, "groups"), "dumpe2fs -h lists no groups"))
        source = "dumpe2fs -h (the superblock's count, of the last umount)"
        return Store("ext4", {"free": source}, values, absent, header.geometry)
    reader = _Groups(header, counting)
    reader.read(first_group, text.blocks())
    try:
        values.update(reader.free.summary())
    except ValueError as error:
        raise NotThisText(f"dumpe2fs' lists of free blocks: {error}") from error
    values["groups"] = reader.groups.summary()
    source = "dumpe2fs (block bitmaps)"
    if reader.disagreeing:
        source += f"; {reader.disagreeing} groups list more or less free than they count: in use while it was read"
    return Store("ext4", {"free": source}, values, absent, header.geometry)


def read_header(lines: Iterable[bytes]) -> tuple[Header, bytes | None]:
    """The header, and the line with which the first group begins, None where there is none. Raises NotThisText."""
    fields: dict[bytes, bytes] = {}
    first_group, line = None, b""
    for line in lines:
        if BEGINS.match(line):
            first_group = line
            break
        if match := FIELD.match(line):
            fields[match[1]] = match[2].strip()  # the last: a label above may hold line ends
    if lacking := [name.decode() for name in NEEDED if name not in fields]:
        raise NotThisText(f"the header of dumpe2fs lacks {', '.join(lacking)}: not its text, or cut short")
    if first_group is None and line != b"\n":  # what both `dumpe2fs` and `dumpe2fs -h` write below the header
        raise NotThisText("the header of dumpe2fs has no end: it was cut short")
    try:
        blocks, block_bytes, first, in_group, inodes, free = (number_of(fields[name]) for name in NEEDED)
        check_device(blocks, block_bytes)
        cluster_blocks = number_of(fields.get(CLUSTER, b"%d" % block_bytes)) // block_bytes
        if in_group <= 0 or max(first, free) > blocks or not 0 < cluster_blocks * block_bytes <= MOST_CLUSTER_BYTES:
            raise ValueError(f"{free} free of {blocks} blocks from {first} on, {in_group} a group")
        made = geometry.of_fields({name.decode("latin-1"): value.decode("latin-1") for name, value in fields.items()})
        if made and blocks >= geometry.MOST_WITHOUT_64BIT and "64bit" not in made["features"]:
            raise ValueError(f"{blocks} blocks without feature 64bit, which allows {geometry.MOST_WITHOUT_64BIT - 1}")
        if block_bytes > MOST_BLOCK_BYTES or block_bytes & (block_bytes - 1):
            raise ValueError(f"blocks of {block_bytes} bytes")
    except ValueError as error:
        raise NotThisText(f"the header of dumpe2fs has numbers that cannot be: {error}") from error
    return Header(blocks, block_bytes, first, in_group, inodes, free, cluster_blocks, made), first_group


class _Groups:
    """The part of the text that lists groups."""

    def __init__(self, header: Header, counting: Counting) -> None:
        self.header = header
        self.free = counting.free_space(header.blocks * header.block_bytes, header.block_bytes, header.block_bytes)
        self.groups = counting.groups("block group")
        self.expected = -(-(header.blocks - header.first_block) // header.group_blocks)
        self.disagreeing = 0

    def read(self, rest: bytes, blocks: Iterator[bytes]) -> None:
        """Read all groups, the first of which begins with `rest`. Raises NotThisText."""
        for block in blocks:
            rest += block
            end = rest.rfind(NEXT) + 1
            self._add(rest[:end])
            rest = rest[end:]
            if len(rest) > 2 * LINE_BYTES:
                raise NotThisText(f"dumpe2fs' text has a group {self.groups.count} of more than {len(rest)} bytes")
        last = self.groups.count
        if rest.endswith(b"\n"):
            self._add(rest)
        if self.groups.count < self.expected:
            raise NotThisText(f"dumpe2fs' text ends with group {last} of {self.expected}: it was cut short")

    def _add(self, text: bytes) -> None:
        """Count groups of which the text is whole."""
        parts, first = GROUP.split(text), self.groups.count
        wrong = next(((place, part) for place, part in enumerate(parts[::PARTS]) if part), None)
        if wrong:
            self._refuse(first + wrong[0], wrong[1])
        columns = (b",".join(parts[place::PARTS]).decode() for place in range(1, PARTS - 1))
        try:
            numbers, starts, ends, counted, inodes = map(freespace.numbers, columns)
        except ValueError:
            raise NotThisText("dumpe2fs' text has a number that begins with a 0; dumpe2fs writes none") from None
        if numbers != list(range(first, first + len(numbers))):
            number = next(number for number, actual in enumerate(numbers, first) if number != actual)
            raise NotThisText(
                f"dumpe2fs' text continues with group {numbers[number - first]} where group {number} should begin"
            )
        if first + len(numbers) > self.expected:
            raise NotThisText(f"dumpe2fs' text has more than the {self.expected} groups that its header has room for")
        head = self.header
        begin, in_group = head.first_block + first * head.group_blocks, head.group_blocks
        wanted = range(begin, begin + len(starts) * in_group, in_group)
        last = [min(start + in_group, head.blocks) - 1 for start in wanted]
        if starts != list(wanted) or ends != last:
            which = next(place for place, pair in enumerate(zip(starts, ends)) if pair != (wanted[place], last[place]))
            raise NotThisText(
                f"dumpe2fs' text has group {first + which} of blocks {starts[which]} to {ends[which]}; by its header "
                f"({head.blocks} blocks, {in_group} a group) it is of blocks {wanted[which]} to {last[which]}"
            )
        blocks = [end - start + 1 for start, end in zip(starts, ends)]
        try:
            free = self.free.add_listed(parts[PARTS - 1 :: PARTS], self.header.cluster_blocks)
        except ValueError as error:
            raise NotThisText(
                f"dumpe2fs' lists of free blocks, up to group {first + len(numbers) - 1}: {error}"
            ) from error
        size, clusters = self.header.block_bytes, self.header.cluster_blocks
        self.disagreeing += sum(map(operator.ne, free, [clusters * number for number in counted]))
        self.groups.add_all([size * number for number in blocks], [size * number for number in free])
        self.groups.add_inodes(self.header.group_inodes, inodes)

    def _refuse(self, number: int, text: bytes) -> None:
        """Raise NotThisText for what stands where a group should."""
        begins = BEGINS.match(text)
        if begins and number_of(begins[1]) == number:
            raise NotThisText(f"dumpe2fs lists no free blocks for group {number}: the text was cut short")
        raise NotThisText(f"dumpe2fs' text continues with {text[:60]!r} where group {number} should begin")
