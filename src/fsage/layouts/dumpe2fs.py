"""The text of dumpe2fs, read block by block and not kept: the memory needed does not grow with the device."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import compress
from typing import NamedTuple

from fsage.base import Json
from fsage.layouts import freespace, geometry
from fsage.layouts.freespace import Counting
from fsage.layouts.store import OF_EXTENTS, NotThisText, Store, check_device, number_of, runs_of, without
from fsage.layouts.stream import LINE_BYTES, UNENDED, Text

FIELD = re.compile(rb"([A-Z][^:]*):[ \t]+(\S.*)")
BEGINS = re.compile(rb"Group (\d+): \(Blocks \d+(?:-| -- )\d+\)")
# Of a group its number, first and last block, free blocks and inodes counted, and the blocks listed.
GROUP = re.compile(  # with or without the blanks at the ends of lines, which editors and wikis take away
    rb"Group (\d{1,19}): \(Blocks (\d{1,19})(?:-| -- )(\d{1,19})\).*\n"  # ` -- ` before 2003
    rb"(?:(?: |[^G\s\d]|Group d).*\n)*?"
    rb" *(\d{1,19}) free (?:blocks|clusters), (\d{1,19}) free inodes.*\n"
    rb" *Free blocks: ?(.*)\n"
    rb"(?:(?![ ,-]*\d[\d, -]*\n)[^G\n].*\n|\n)*"  # a line of runs is one that was wrapped
)
PARTS = GROUP.groups + 1  # of each match, with what is before it
NEXT = b"\nGroup "
OF_ONE = b"Group descriptor"  # of a group, where the blanks before it were taken away
AFTER_FREE = re.compile(rb"\n *Free inodes:[^\n]*\Z")
AGAIN = b"\nFilesystem UUID: "
NEEDED = (b"Block count", b"Block size", b"First block", b"Blocks per group", b"Inodes per group", b"Free blocks")
CLUSTER = b"Cluster size"
FEATURES = b"Filesystem features"
WORDS = re.compile(rb"\s*[a-z_]\w*(?: \w+)*\s*$")
BITMAP = re.compile(rb"Block bitmap at (\d{1,19})")
OWN = re.compile(rb"(?:superblock|bitmap|table|descriptors) at (\d{1,19})")
FIRST = re.compile(rb"\d{1,19}")
RUN = re.compile(rb"(\d{1,19})-(\d{1,19})$")
EXPECTED = re.compile(rb"Group (\d{1,19}): .*\(EXPECTED ")  # the checksum that would fit
COMPLAINT = re.compile(rb"(?:dumpe2fs: |.*[Cc]hecksum (?:does not|errors? )|.*error reading).*", re.M)
MAYBE = (b"dumpe2fs: ", b"hecksum ", b"error reading")
HEXADECIMAL = "its numbers are hexadecimal (dumpe2fs -x): run dumpe2fs without -x"
REPAIR = "`e2fsck -f -n DEVICE` on the unmounted file system says what is wrong"
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
    filesystem: str
    """ext2, ext3 or ext4."""
    unlike: str | None
    """Why no copy is like it."""
    complaints: list[str]
    """Complaints of dumpe2fs, which do not say what is damaged."""
    state: list[str]
    """What the superblock says of damage."""
    is_settled: bool
    """Whether the superblock's count is of now: unmounted cleanly, and no journal to replay."""

    def named(self, store: Store) -> Store:
        """The store with what the superblock says of how it was made."""
        store.filesystem = self.filesystem
        store.geometry = self.geometry
        store.unlike = self.unlike
        return store


def of_text(text: Text, counting: Counting) -> Store:
    """The store that the text tells of. Raises NotThisText.

    Damage can look like free space: of a zeroed descriptor all blocks are listed as free, and none is counted. What
    such a group has is unknown, and the superblock says how full the device is. `dumpe2fs -h` gives the header alone;
    then what needs groups is absent.
    """
    header, first_group = read_header(text)
    block_bytes = header.block_bytes
    device_bytes = header.blocks * block_bytes
    of_superblock = freespace.usage(device_bytes, header.free_blocks * block_bytes)
    values: Json = {"device_bytes": device_bytes, "block_bytes": block_bytes}
    absent = {"files": "dumpe2fs lists no files"}
    if first_group is None:
        values.update(of_superblock)
        why = "dumpe2fs -h and tune2fs -l list no groups"
        if header.complaints:
            why = "dumpe2fs lists no groups where it fails"
        absent.update(without((*OF_EXTENTS, "groups"), why))
        source = "dumpe2fs -h or tune2fs -l (the superblock's count, of the last umount)"
        warnings = header.complaints + header.state
        return header.named(Store(None, {"free": source}, values, absent, warnings=warnings))
    reader = _Groups(header, counting)
    reader.read(first_group, text.blocks())
    try:
        values.update(reader.free.summary())
    except ValueError as error:
        raise NotThisText(f"dumpe2fs' lists of free blocks: {error}") from error
    values["groups"] = reader.groups.summary()
    source = "dumpe2fs (block bitmaps)"
    free_blocks = values["free_bytes"] // block_bytes
    if reader.disagreeing:
        source += (
            f"; {reader.disagreeing} groups list more or less free than they count, in all {free_blocks} blocks where "
            f"they count {reader.counted}: in use while it was read, or damaged"
        )
    if not header.is_settled and not header.state:
        source += "; its journal is not replayed, or it is mounted, so its free blocks may be of an earlier moment"
    complaints = [*header.complaints, *reader.complaints]
    unknown_bytes = reader.unknown_bytes
    if reader.disagreeing and header.is_settled:
        complaints.append(
            f"Damaged: {reader.disagreeing} groups list more or less free than they count, though unmounted cleanly; "
            f"{REPAIR}."
        )
    if complaints and not unknown_bytes:
        unknown_bytes = device_bytes
    if header.is_settled and not unknown_bytes and free_blocks != header.free_blocks:
        source += f"; the superblock counts {header.free_blocks} free blocks, and the bitmaps have {free_blocks}"
    if unknown_bytes:
        values.update(of_superblock, free_bytes=values["free_bytes"])
        source += "; how full by the superblock"
    warnings = [*reader.warnings(free_blocks), *complaints, *header.state]
    store = Store(None, {"free": source}, values, absent, warnings=warnings, unknown_bytes=unknown_bytes)
    return header.named(store)


def read_header(lines: Iterable[bytes]) -> tuple[Header, bytes | None]:
    """The header, and the line with which the first group begins, None where there is none. Raises NotThisText."""
    fields: dict[bytes, bytes] = {}
    complaints: list[str] = []
    first_group = None
    line = b""
    name = b""
    for line in lines:
        if BEGINS.match(line):
            first_group = line
            break
        if line.startswith(b"Group 0: (Blocks 0x"):
            raise NotThisText(HEXADECIMAL)
        if COMPLAINT.match(line):
            complaints.append(_complaint(line))
        match = FIELD.match(line)
        if match:
            name = match[1]
            fields[name] = match[2].strip()  # the last: a label above may hold line ends
        elif name == FEATURES and WORDS.match(line):  # wrapped by mail
            fields[name] += b" " + line.strip()
    lacking = [name.decode() for name in NEEDED if name not in fields]
    if lacking:
        raise NotThisText(f"the header of dumpe2fs lacks {', '.join(lacking)}: not its text, or cut short")
    if first_group is None and not line.endswith(b"\n"):  # a number may lack digits
        raise NotThisText(UNENDED)
    try:
        blocks, block_bytes, first, in_group, inodes, free = (number_of(fields[name]) for name in NEEDED)
        check_device(blocks, block_bytes)
        cluster_blocks = number_of(fields.get(CLUSTER, b"%d" % block_bytes)) // block_bytes
        if in_group <= 0 or max(first, free) > blocks or not 0 < cluster_blocks * block_bytes <= MOST_CLUSTER_BYTES:
            raise ValueError(f"{free} free of {blocks} blocks from {first} on, {in_group} a group")
        texts = {name.decode("latin-1"): value.decode("latin-1") for name, value in fields.items()}
        made = geometry.of_fields(texts)
        if made and blocks >= geometry.MOST_WITHOUT_64BIT and "64bit" not in made["features"]:
            raise ValueError(f"{blocks} blocks without feature 64bit, which allows {geometry.MOST_WITHOUT_64BIT - 1}")
        if block_bytes > MOST_BLOCK_BYTES or block_bytes & (block_bytes - 1):
            raise ValueError(f"blocks of {block_bytes} bytes")
    except ValueError as error:
        raise NotThisText(f"the header of dumpe2fs has numbers that cannot be: {error}") from error
    damage: list[str] = []
    state = fields.get(b"Filesystem state", b"clean").decode(errors="replace")
    errors = fields.get(b"FS Error count", b"0").decode(errors="replace")
    if "error" in state or errors != "0":
        noted = f" and {errors} errors noted" if errors != "0" else ""
        damage.append(f"Damaged: the superblock has the state '{state}'{noted}; {REPAIR}.")
    is_settled = state == "clean" and b"needs_recovery" not in fields.get(FEATURES, b"")
    name_and_unlike = geometry.ext_of_fields(texts)
    numbers = blocks, block_bytes, first, in_group, inodes, free, cluster_blocks
    return Header(*numbers, made, *name_and_unlike, complaints, damage, is_settled), first_group


def _complaint(line: bytes) -> str:
    return f"Damaged: dumpe2fs says {line.strip().decode(errors='replace')[:120]!r}; {REPAIR}."


class _Groups:
    """The part of the text that lists groups."""

    def __init__(self, header: Header, counting: Counting) -> None:
        self.header = header
        size = header.block_bytes
        self.free = freespace.FreeSpace(counting, header.blocks * size, size, size)
        self.groups = freespace.Buckets("block group")
        self.expected = -(-(header.blocks - header.first_block) // header.group_blocks)
        self.disagreeing = self.counted = self.seen = self.unknown_bytes = 0
        self.damaged: dict[int, str] = {}
        self.complaints: list[str] = []

    def warnings(self, known_blocks: int) -> list[str]:
        """On damage: which groups are unknown and why, and by how much the superblock has more."""
        if not self.damaged:
            return []
        reasons = " or ".join(reason for reason, _ in Counter(self.damaged.values()).most_common(2))
        return [
            f"Damaged: {len(self.damaged)} of {self.expected} block groups ({runs_of(sorted(self.damaged))}) have "
            f"{reasons}. What is free of their {self.unknown_bytes >> 20} MiB is not known: the other groups have "
            f"{known_blocks} free blocks, and the superblock counts {self.header.free_blocks}; {REPAIR}."
        ]

    def read(self, rest: bytes, blocks: Iterator[bytes]) -> None:
        """Read all groups, the first of which begins with `rest`. Raises NotThisText."""
        for block in blocks:
            rest += block
            end = rest.rfind(NEXT) + 1
            while rest.startswith(OF_ONE, end):
                end = rest.rfind(NEXT, 0, end - 1) + 1
            self._add(rest[:end])
            rest = rest[end:]
            if len(rest) > 2 * LINE_BYTES:
                raise NotThisText(f"dumpe2fs' text has a group {self.seen} of more than {len(rest)} bytes")
        last = self.seen
        if AFTER_FREE.search(rest):  # the list of free blocks is whole, though the last line may have no end
            rest += b"\n"
        if rest.endswith(b"\n"):
            self._add(rest)
        if self.seen < self.expected:
            raise NotThisText(f"dumpe2fs' text ends with group {last} of {self.expected}: it was cut short")

    def _add(self, text: bytes) -> None:
        """Count groups of which the text is whole."""
        if AGAIN in text:
            raise NotThisText("it has two texts of dumpe2fs, one behind the other: give one at a time")
        if any(word in text for word in MAYBE):
            self.complaints += [_complaint(line) for line in COMPLAINT.findall(text)]
            text = COMPLAINT.sub(b"", text)
        parts = GROUP.split(text)
        first = self.seen
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
        begin = head.first_block + first * head.group_blocks
        in_group = head.group_blocks
        wanted = range(begin, begin + len(starts) * in_group, in_group)
        last = [min(start + in_group, head.blocks) - 1 for start in wanted]
        if starts != list(wanted) or ends != last:
            which = next(place for place, pair in enumerate(zip(starts, ends)) if pair != (wanted[place], last[place]))
            raise NotThisText(
                f"dumpe2fs' text has group {first + which} of blocks {starts[which]} to {ends[which]}; by its header "
                f"({head.blocks} blocks, {in_group} a group) it is of blocks {wanted[which]} to {last[which]}"
            )
        blocks = [end - start + 1 for start, end in zip(starts, ends)]
        self.seen += len(numbers)
        lists = parts[PARTS - 1 :: PARTS]
        damaged = self._damaged(text, first, counted, inodes, lists)
        for which in damaged:
            lists[which] = b""
            counted[which] = 0
            self.unknown_bytes += blocks[which] * head.block_bytes
        self.damaged |= {first + which: reason for which, reason in damaged.items()}
        try:
            free = self.free.add_listed(lists, head.cluster_blocks)
        except ValueError as error:
            raise NotThisText(
                f"dumpe2fs' lists of free blocks, up to group {first + len(numbers) - 1}: {error}"
            ) from error
        size = head.block_bytes
        clusters = head.cluster_blocks
        self.counted += clusters * sum(counted)
        self.disagreeing += sum(map(operator.ne, free, [clusters * number for number in counted]))
        if damaged:
            sound = [which not in damaged for which in range(len(numbers))]
            blocks, free, inodes = (list(compress(column, sound)) for column in (blocks, free, inodes))
        self.groups.add_all([size * number for number in blocks], [size * number for number in free])
        self.groups.add_inodes(head.group_inodes, inodes)

    def _damaged(
        self, text: bytes, first: int, counted: list[int], inodes: list[int], lists: list[bytes]
    ) -> dict[int, str]:
        """Groups from `first` on that cannot be as their lines say, and why."""
        head = self.header
        most = head.group_blocks // head.cluster_blocks
        places = list(map(int, BITMAP.findall(text)))
        if len(places) != len(counted):  # of another form
            places = list(range(head.first_block + 1, head.first_block + 1 + len(counted)))
        own = set(map(int, OWN.findall(text)))
        bent = set()
        if b"(EXPECTED " in text:
            bent = {int(number) - first for number in EXPECTED.findall(text)}
        twice = set()
        if len(set(places)) < len(places):
            twice = {place for place, count in Counter(places).items() if count > 1}
        damaged = {}
        least_whole = (most - 1) * head.cluster_blocks - 1
        for which, (place, free, free_inodes) in enumerate(zip(places, counted, inodes)):
            if not head.first_block < place < head.blocks or place in twice:
                damaged[which] = f"their block bitmap at block {place}, where none can be"
            elif free > most or free_inodes > head.group_inodes:
                damaged[which] = "more counted as free than they have"
            elif which in bent:
                damaged[which] = "a checksum that does not fit their descriptor"
            elif free < most and (run := RUN.match(lists[which])) and int(run[2]) - int(run[1]) > least_whole:
                damaged[which] = "all their blocks listed as free and fewer counted"
            elif (begins := FIRST.match(lists[which])) and int(begins[0]) in own:
                damaged[which] = "blocks of their own superblock, bitmaps or inodes listed as free"
        return damaged

    def _refuse(self, number: int, text: bytes) -> None:
        """Raise NotThisText for what stands where a group should."""
        if self.complaints:
            raise NotThisText(f"dumpe2fs lists no free blocks for group {number}. {self.complaints[0]}")
        begins = BEGINS.match(text)
        if begins and number_of(begins[1]) == number:
            raise NotThisText(
                f"dumpe2fs lists no free blocks for group {number}: the text was cut short, its lines were wrapped, or "
                "dumpe2fs could not read the bitmaps"
            )
        raise NotThisText(f"dumpe2fs' text continues with {text[:60]!r} where group {number} should begin")
