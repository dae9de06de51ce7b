"""Free extents of a device as a text of their own, and as sets of bytes.

The text is small, and has nothing of anybody's files. It begins with a mark and a line of JSON on the device. Each free
extent has a line `GAP LENGTH`, in blocks; the gap is the distance from the end of the extent before. A line `end`
counts them.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from typing import NamedTuple

from fsage.base import Json, typed
from fsage.base.message import Unacceptable
from fsage.base.typed import Positive, Word
from fsage.layouts.freespace import DIGITS, Counting
from fsage.layouts.store import Geometry, NotThisText, Store, check_device, number_of, of_extents

MARK = b"fsage free extents 1"
LINE = re.compile(rb"(\d{1,19}) (\d{1,19})\n")
END = re.compile(rb"end (\d{1,19}) (\d{1,19})\n?")
GROUP = "group"
MOST_GROUPS = 1 << 24
BATCH = 1 << 16  # lines that are looked at together: there are millions
LINE_BYTES = 40
BLOCK_BYTES = 4096

Extents = list[tuple[int, int]]
"""Start and end in bytes, ascending; none touches the next."""


class Head(NamedTuple):
    """The device whose free extents are told: sizes in bytes, `group_bytes` of its block or allocation groups.

    `source`: what told them. `filesystem`: None where nobody said. `drawn`: how, if it is a sample of a larger device.
    `geometry`: how it was made, if that is known (fsage.layouts.geometry). `unlike`: why no copy would be like it.
    """

    device_bytes: Positive
    block_bytes: Positive
    group_bytes: Positive
    filesystem: Word | None
    source: Word
    drawn: Json | None = None
    geometry: Json | None = None
    unlike: Word | None = None

    def why_no_copy(self) -> str | None:
        """Why it is not copied onto a target; None where nothing is known that speaks against it."""
        if self.unlike or self.block_bytes == BLOCK_BYTES:
            return self.unlike
        return f"it has blocks of {self.block_bytes} bytes, and every target has blocks of {BLOCK_BYTES}"


def written(head: Head, extents: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """The text, in parts."""
    yield MARK + b"\n"
    fields = {name: value for name, value in head._asdict().items() if name != "unlike" or value}
    yield json.dumps(fields, sort_keys=True).encode() + b"\n"
    block = head.block_bytes
    at = 0
    count = 0
    free = 0
    extents = iter(extents)
    while batch := list(islice(extents, BATCH)):
        starts, ends = zip(*batch)
        gaps = map(operator.sub, starts, (at, *ends[:-1]))
        lengths = map(operator.sub, ends, starts)
        numbers = [size // block for size in chain.from_iterable(zip(gaps, lengths))]
        yield (b"%d %d\n" * len(batch)) % tuple(numbers)
        at = ends[-1]
        count += len(batch)
        free += sum(numbers[1::2])
    yield b"end %d %d\n" % (count, free)


def read(lines: Iterable[bytes]) -> tuple[Head, Iterator[tuple[int, int]]]:
    """What the text tells; the extents come as they are read. Raises NotThisText, also while they come."""
    lines = iter(lines)
    if next(lines, b"").rstrip(b"\n") != MARK:
        raise NotThisText(f"it does not begin with {MARK.decode()!r}")
    head = _head(next(lines, b""))
    return head, _extents(head, lines)


def _head(line: bytes) -> Head:
    try:
        fields = json.loads(line)
        head = typed.read(Head, [fields.get(name) for name in Head._fields], "it")
    except (ValueError, Unacceptable, AttributeError, RecursionError) as error:
        raise NotThisText(f"the line on the device lacks something or has what cannot be: {error}") from None
    check_device(head.device_bytes // head.block_bytes, head.block_bytes)
    return head


def _extents(head: Head, lines: Iterator[bytes]) -> Iterator[tuple[int, int]]:
    block = head.block_bytes
    at = 0
    count = 0
    free = 0
    last = b""  # the first line that is no extent
    while not last and (batch := list(islice(lines, BATCH))):
        edges = _edges(batch, at // block, count == 0, head.device_bytes // block)
        if edges:
            starts = edges[::2]
            ends = edges[1::2]
            at = ends[-1] * block
            count += len(batch)
            free += sum(ends) - sum(starts)
            yield from zip([start * block for start in starts], [end * block for end in ends])
            continue
        for line in batch:
            match = LINE.fullmatch(line)
            if not match:
                last = line
                break
            gap = int(match[1]) * block
            length = int(match[2]) * block
            start = at + gap
            count += 1
            free += int(match[2])
            at = start + length
            if not length or (not gap and count > 1) or at > head.device_bytes:
                raise NotThisText(
                    f"free extent {count} has {length} bytes at {start}, {gap} after the one before, on a device of "
                    f"{head.device_bytes} bytes: it cannot be"
                )
            yield start, at
    if not last:
        raise NotThisText(f"its list ends with free extent {count} and without its end: it was cut short")
    end = END.fullmatch(last)
    if not end:
        raise NotThisText(f"it continues with {last[:60]!r} where a free extent or the end should be")
    if (number_of(end[1]), number_of(end[2])) != (count, free):
        raise NotThisText(
            f"its end counts {int(end[1])} free extents of {int(end[2])} blocks; there are {count} of {free}"
        )


def _edges(batch: list[bytes], at: int, first: bool, blocks: int) -> Sequence[int]:
    """Where extents begin and end, in blocks, one after the other; nothing where a line is not one that can be."""
    text = b"".join(batch)
    if text.translate(None, DIGITS) != b" \n" * len(batch) or max(map(len, batch)) > LINE_BYTES:
        return ()
    numbers = list(map(int, text.split()))
    if len(numbers) != 2 * len(batch) or not all(numbers[1:]) or not (numbers[0] or first):
        return ()
    edges = list(accumulate(numbers, initial=at))[1:]
    if edges[-1] <= blocks:
        return edges
    return ()


def of_text(lines: Iterable[bytes], counting: Counting) -> Store:
    """The store that the text tells of. Raises NotThisText."""
    head, extents = read(lines)
    geometry = Geometry(head.device_bytes, head.block_bytes, head.group_bytes)
    runs = ((start, end - start) for start, end in extents)
    if head.device_bytes // head.group_bytes > MOST_GROUPS:
        raise NotThisText(f"it tells of groups of {head.group_bytes} bytes, too many for {head.device_bytes}")
    store = of_extents(head.filesystem, head.source, GROUP, geometry, runs, counting)
    store.absent["files"] = "a text of free extents lists no files"
    store.geometry = head.geometry
    store.unlike = head.unlike
    return store


def size(extents: Extents) -> int:
    """Bytes of all."""
    return sum(end - start for start, end in extents)


def common(some: Extents, others: Extents) -> Extents:
    """What is in both."""
    shared = []
    ours = 0
    theirs = 0
    while ours < len(some) and theirs < len(others):
        our = some[ours]
        their = others[theirs]
        start = max(our[0], their[0])
        end = min(our[1], their[1])
        if start < end:
            shared.append(our if (start, end) == our else (start, end))  # the same object: there are millions
        if our[1] < their[1]:
            ours += 1
        else:
            theirs += 1
    return shared


def without(some: Extents, others: Extents) -> Extents:
    """The ranges of `some` that are not in `others`."""
    rest = []
    at = 0
    for start, end in some:
        while at < len(others) and others[at][1] <= start:
            at += 1
        index = at
        while index < len(others) and others[index][0] < end:
            if others[index][0] > start:
                rest.append((start, others[index][0]))
            start = max(start, others[index][1])
            index += 1
        if start < end:
            rest.append((start, end))
    return rest


def joined(room: Extents, total: int, centre: int) -> Extents:
    """`total` bytes of `room`, one after the other, that lie about `centre` as far as there is room on both sides."""
    before = size(common(room, [(0, max(1, centre))]))
    skip = max(0, min(before - total // 2, size(room) - total)) // BLOCK_BYTES * BLOCK_BYTES
    run = []
    for start, end in room:
        passed = min(skip, end - start)
        skip -= passed
        taken = min(total, end - start - passed)
        total -= taken
        if taken:
            run.append((start + passed, start + passed + taken))
    return run


def centre(extents: Extents) -> int:
    """The mean place of a free byte."""
    return sum((start + end) * (end - start) // 2 for start, end in extents) // max(1, size(extents))


def shares(extents: Extents, device_bytes: int, parts: int) -> list[int]:
    """How much of each of so many equal parts of the device is free, in whole percent."""
    ends = [device_bytes * number // parts for number in range(parts + 1)]
    free = [0] * parts
    part = 0
    for start, end in extents:
        while start < end:
            while ends[part + 1] <= start:
                part += 1
            stop = min(end, ends[part + 1])
            free[part] += stop - start
            start = stop
    return [100 * bytes_free // max(1, ends[number + 1] - ends[number]) for number, bytes_free in enumerate(free)]
