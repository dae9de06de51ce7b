"""Free extents of a device, counted as they come and not kept; and its groups by how free they are.

The memory needed does not grow with their number. Runs of blocks are read as dumpe2fs lists them: there are millions.
"""

from __future__ import annotations

import itertools
import json
import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from fsage.base import Json

DIGITS = b"0123456789"
PART_BYTES = 1 << 14


def numbers(listed: str) -> list[int]:
    """The number of digits with commas between. Raises ValueError, also for a number that begins with a 0."""
    values: list[int] = json.loads(f"[{listed}]")  # the quickest way that Python itself has
    return values


def runs(text: bytes, cluster: int) -> tuple[list[int], list[int]]:
    """Where runs of clusters of so many blocks begin, and where they end. Raises ValueError.

    The last number of a run is the first block of its last cluster (e2fsprogs 1.47.0) or the last one (1.47.2).
    """
    between = text.translate(None, DIGITS)
    if between.replace(b", ", b"").translate(None, b"-"):
        raise ValueError(f"{text[:20]!r} is no run of blocks")
    words = text.decode()
    count = between.count(b",") + 1
    if between != b"-, " * (count - 1) + b"-":
        words = ", ".join([run if "-" in run else f"{run}-{run}" for run in words.split(", ")])
    try:
        ends = numbers(words.replace("-", ","))
    except ValueError:
        raise ValueError(f"{text[:40]!r} ... is no run of blocks") from None
    if len(ends) != 2 * count:
        raise ValueError(f"{text[:40]!r} ... has a run of more than two blocks")
    return ends[::2], [last + cluster - last % cluster for last in ends[1::2]]


def parts(text: bytes) -> Iterator[bytes]:
    """A list in pieces, cut between two runs: one of 7 MB has a million."""
    at = 0
    end = len(text)
    while at < end:
        stop = text.find(b", ", at + PART_BYTES)
        if stop < 0:
            stop = end
        yield text[at:stop]
        at = stop + len(", ")


MIB_POWER = 20
ALIGNED_POWERS = range(MIB_POWER, MIB_POWER + 7)  # the transfer sizes of the PaF study, 1 to 64 MiB
BATCH = 4096  # extents that are counted together

Keep = Callable[[Sequence[int], Sequence[int]], None]
"""Is given free extents: where they begin and where they end, in bytes."""


class FreeSpace:
    """Histogram, bitmap and aligned chunks of the free extents given to `add`.

    A free extent is a run of free blocks that lie side by side on the device, whichever group they belong to. The
    bitmap has at most `bins` bins, each a power of two of bytes and no smaller than a block. `unit_bytes`: of what all
    calls but `keep` give; a power of two, 1 MiB at most.
    """

    def __init__(self, counting: Counting, device_bytes: int, block_bytes: int, unit_bytes: int = 1) -> None:
        self.device_bytes = device_bytes
        self.unit_bytes = unit_bytes
        self._keep = counting.keep
        self._unit_power = unit_bytes.bit_length() - 1
        self._of_length: Counter[int] = Counter()  # as many as differ: few beside the extents
        self._aligned = [0] * len(ALIGNED_POWERS)  # chunks
        self._bin_power = max(-(-device_bytes // counting.bins) - 1, block_bytes - 1).bit_length()
        self._bins = [0] * (((device_bytes - 1) >> self._bin_power) + 1)
        self._starts: list[int] = []  # of extents that nobody looked at yet
        self._ends: list[int] = []
        self._last = 0, 0  # begin and end of the extent that the next one may still lengthen

    def add(self, extents: Iterable[tuple[int, int]]) -> None:
        """Take extents (start, length), ascending, neighbours joined.

        Raises ValueError for what cannot be, here or with a later call: many are looked at together.
        """
        extents = iter(extents)
        while batch := list(itertools.islice(extents, BATCH)):
            starts, lengths = zip(*batch)
            self._take(starts, list(map(operator.add, starts, lengths)))

    def add_listed(self, lists: Iterable[bytes], cluster: int) -> list[int]:
        """`add` of texts such as `9305-32767, 33000`; return the length of each.

        `cluster`: blocks, as of `runs`. Raises ValueError, as `add`.
        """
        rows = []
        for text in lists:
            length = 0
            for part in parts(text):
                starts, ends = runs(part, cluster)
                self._take(starts, ends)
                length += sum(ends) - sum(starts)
            rows.append(length)
        return rows

    def _take(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Extents in two lists, for there are millions."""
        self._starts += starts
        self._ends += ends
        if len(self._starts) >= BATCH:
            self._look()

    def summary(self) -> Json:
        """The keys used_bytes … aligned_free_share of a store's summary; nothing can be added after it.

        - free_extents: by power of two, from `from_bytes` to below twice that;
        - bitmap: the free share of each bin, from the device's beginning; the last bin ends with the device;
        - aligned_free_share: by chunk size in bytes, the share of the free bytes in chunks that are wholly free and
          begin at a multiple of that size.

        Raises ValueError, as `add`.
        """
        self._look()
        self._count([self._last[0]], [self._last[1]])
        self._last = 0, 0
        numbers = Counter[int]()
        sizes = Counter[int]()
        for length, number in self._of_length.items():
            power = length.bit_length() - 1 + self._unit_power
            numbers[power] += number
            sizes[power] += length * number * self.unit_bytes
        largest_bytes = max(self._of_length, default=0) * self.unit_bytes
        free_bytes = sum(sizes.values())
        shares: dict[str, float | None] = {}
        for power, chunks in zip(ALIGNED_POWERS, self._aligned):
            shares[str(1 << power)] = (chunks << power) / free_bytes if free_bytes else None
        bin_bytes = 1 << self._bin_power
        last_bytes = self.device_bytes - (len(self._bins) - 1) * bin_bytes
        bitmap = [free / bin_bytes for free in self._bins[:-1]]
        return {
            **usage(self.device_bytes, free_bytes),
            "free_extents": free_extents(numbers, sizes, largest_bytes),
            "bitmap": {"bin_bytes": bin_bytes, "free_share": [*bitmap, self._bins[-1] / last_bytes]},
            "aligned_free_share": shares,
        }

    def _look(self) -> None:
        """Check what was added; count all but the last extent. Raises ValueError."""
        starts = self._starts
        ends = self._ends
        if not starts:
            return
        before = [self._last[1], *ends[:-1]]
        if not all(map(operator.lt, starts, ends)) or ends[-1] << self._unit_power > self.device_bytes:
            self._refuse(starts, ends)
        if not all(map(operator.gt, starts, before)):
            if any(map(operator.lt, starts, before)):
                self._refuse(starts, ends)
            apart = list(map(operator.ne, starts, before))
            starts = list(itertools.compress(starts, apart))
            before = list(itertools.compress(before, apart))
        last = starts.pop() if starts else self._last[0]
        self._count([self._last[0], *starts][: len(before)], before)
        self._last = last, ends[-1]
        self._starts = []
        self._ends = []

    def _refuse(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Raise ValueError for the first that cannot be."""
        unit = self.unit_bytes
        until = self._last[1]
        for start, end in zip(starts, ends):
            if start < until:
                raise ValueError(f"a free extent at {start * unit}, after one up to {until * unit}")
            if end <= start or end * unit > self.device_bytes:
                raise ValueError(
                    f"a free extent of {(end - start) * unit} bytes at {start * unit}, on a device of "
                    f"{self.device_bytes} bytes"
                )
            until = end

    def _count(self, starts: list[int], ends: list[int]) -> None:
        """Count extents whose two ends are known; none may be the first, of no length."""
        if starts and not ends[0]:
            starts = starts[1:]
            ends = ends[1:]
        if not starts:
            return
        unit = self.unit_bytes
        power = self._unit_power
        if self._keep and power:
            self._keep([start * unit for start in starts], [end * unit for end in ends])
        elif self._keep:
            self._keep(starts, ends)
        lengths = list(map(operator.sub, ends, starts))
        self._of_length.update(lengths)
        # Whole chunks, by the numbers of the first and of the one after the last.
        power = MIB_POWER - power
        pairs = zip(starts, ends)
        large = itertools.compress(pairs, map((1 << power).__le__, lengths))
        chunks = [(-(-start >> power), end >> power) for start, end in large]
        for number in range(len(ALIGNED_POWERS)):
            chunks = [
                (first, last) for first, last in chunks if first < last
            ]  # where none fits, none of twice its size
            self._aligned[number] += sum(last - first for first, last in chunks)
            chunks = [((first + 1) >> 1, last >> 1) for first, last in chunks]
        if len(self._bins) == 1:
            self._bins[0] += sum(lengths) * unit
            return
        upto = [0, *itertools.accumulate(lengths)]
        power = self._bin_power - self._unit_power
        below = 0
        for number in range(starts[0] >> power, ((ends[-1] - 1) >> power) + 1):
            edge = (number + 1) << power
            whole = bisect_right(ends, edge)
            part = max(0, edge - starts[whole]) if whole < len(starts) else 0
            self._bins[number] += (upto[whole] + part - below) * unit
            below = upto[whole] + part


def usage(device_bytes: int, free_bytes: int) -> Json:
    """The keys of a store's summary that say how full it is."""
    used_bytes = device_bytes - free_bytes
    percent = 100 * used_bytes / device_bytes
    return {"used_bytes": used_bytes, "free_bytes": free_bytes, "fullness_percent": percent}


def free_extents(numbers: Counter[int], sizes: Counter[int], largest_bytes: int) -> Json:
    """The key `free_extents` of a store's summary; their number and bytes by the power of two of their bytes."""
    count = sum(numbers.values())
    histogram = []
    for power in range(min(numbers, default=0), max(numbers, default=-1) + 1):
        histogram.append({"from_bytes": 1 << power, "extents": numbers[power], "bytes": sizes[power]})
    mean_bytes = sum(sizes.values()) / count if count else None
    return {"count": count, "largest_bytes": largest_bytes, "mean_bytes": mean_bytes, "histogram": histogram}


@dataclass(frozen=True)
class Counting:
    """Free extents are counted in how many `bins` at most, and who `keep`s them, starts and ends in bytes.

    Those that are kept come in ascending order, and none touches the next.
    """

    bins: int = 1024
    keep: Keep | None = None


ONCE = Counting()
"""Counted and not kept."""


# The buckets of the PaF study, which counts the block groups of a production target so: there 93 of 925 183 groups are
# in none of its five, for those with none free have none. Here they have the first: (label, share from which on).
BUCKETS = (
    ("none free", 0.0),
    ("< 1/16", 0.0),
    ("< 1/8", 1 / 16),
    ("< 1/4", 1 / 8),
    ("< 1/2", 1 / 4),
    ("1/2 and more", 1 / 2),
)
STARTS = tuple(start for _, start in BUCKETS[2:])


class Buckets:
    """Groups given to `add_all`, each counted in exactly one bucket."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.count = self.group_bytes = 0
        self._of_bytes = [0] * len(BUCKETS)
        self._of_inodes = [0] * len(BUCKETS)

    def add_all(self, size_bytes: Sequence[int], free_bytes: Sequence[int]) -> None:
        """Count groups: how large each is, and how much of it is free."""
        self.count += len(size_bytes)
        self.group_bytes = max(self.group_bytes, max(size_bytes, default=0))
        for row in map(bucket, size_bytes, free_bytes):
            self._of_bytes[row] += 1

    def add_inodes(self, inodes: int, free_inodes: Sequence[int]) -> None:
        """How many inodes are free, in groups that have so many each."""
        for free in free_inodes:
            self._of_inodes[bucket(inodes, free)] += 1

    def summary(self) -> Json:
        """The key `groups` of a store's summary.

        - group_bytes: the size of the largest group;
        - buckets: number of groups by their free share, from_share included, to_share excluded except in the first and
          the last;
        - inode_buckets: number of groups by their share of free inodes; None where groups have no fixed number of them.
        """
        return {
            "kind": self.kind,
            "group_bytes": self.group_bytes,
            "count": self.count,
            "buckets": _table(self._of_bytes),
            "inode_buckets": _table(self._of_inodes) if any(self._of_inodes) else None,
        }


def bucket(whole: int, free: int) -> int:
    """The place in BUCKETS of a group of which `free` of `whole` is free."""
    if not free:
        return 0
    return 1 + bisect_right(STARTS, free / whole)


def _table(groups: list[int]) -> list[Json]:
    ends = (0.0, *STARTS, 1.0)
    return [
        {"label": label, "from_share": start, "to_share": end, "groups": number}
        for (label, start), end, number in zip(BUCKETS, ends, groups)
    ]
