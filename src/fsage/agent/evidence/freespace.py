"""Free extents of a device, counted as they come and not kept: the memory needed does not grow with their number."""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

MIB_POWER = 20
MIB = 1 << MIB_POWER
ALIGNED_POWERS = range(MIB_POWER, MIB_POWER + 7)  # the transfer sizes of the PaF study, 1 to 64 MiB
BATCH = 4096  # extents that are counted together


class Counting(NamedTuple):
    """How free extents are counted: in how many `bins` at most, and who `keep`s each one, its start and end in bytes.

    Those that are kept come in ascending order, and none touches the next.
    """

    bins: int = 1024
    keep: Callable[[int, int], None] | None = None


ONCE = Counting()
"""Counted and not kept."""


class FreeSpace:
    """Histogram, bitmap and aligned chunks of the free extents given to `add`.

    A free extent is a run of free blocks that lie side by side on the device, whichever group they belong to. The
    bitmap has at most `counting.bins` bins, each a power of two of bytes and no smaller than a block.
    """

    def __init__(self, device_bytes: int, block_bytes: int, counting: Counting = ONCE) -> None:
        self.device_bytes, bins = device_bytes, counting.bins
        self._keep = counting.keep
        self._of_length: Counter[int] = Counter()  # as many as differ: few beside the extents
        self._aligned = [0] * len(ALIGNED_POWERS)  # chunks
        self._bin_power = max(-(-device_bytes // bins) - 1, block_bytes - 1).bit_length()
        self._bins = [0] * (((device_bytes - 1) >> self._bin_power) + 1)
        self._starts: list[int] = []  # of extents that nobody looked at yet
        self._lengths: list[int] = []
        self._last = 0, 0  # begin and end of the extent that the next one may still lengthen

    def add(self, extents: Iterable[tuple[int, int]]) -> int:
        """Take extents (start, length; bytes), ascending, neighbours joined; return their bytes.

        Raises ValueError for what cannot be, here or with a later call: many are looked at together.
        """
        added, extents = 0, iter(extents)
        while batch := list(itertools.islice(extents, BATCH)):
            starts, lengths = zip(*batch)  # noqa: B905 (hosts: Python 3.9)
            added += self.add_all(starts, lengths)
        return added

    def add_all(self, starts: Iterable[int], lengths: Sequence[int]) -> int:
        """`add` of extents in two lists, for there are millions."""
        self._starts += starts
        self._lengths += lengths
        if len(self._starts) >= BATCH:
            self._look()
        return sum(lengths)

    def summary(self) -> dict[str, Any]:
        """The keys used_bytes … aligned_free_share of a store's summary; nothing can be added after it.

        free_extents: by power of two, `from_bytes` included, twice that excluded. bitmap: share of each bin's bytes
        that is free, from the device's beginning, the last bin cut off at its end. aligned_free_share: by chunk size in
        bytes, share of the free bytes that lie in wholly free chunks that begin at a multiple of that size. Raises
        ValueError, as `add`.
        """
        self._look()
        self._count([self._last[0]], [self._last[1]])
        self._last = 0, 0
        extents, sizes = [0] * 64, [0] * 64  # by power of two of their length
        for length, number in self._of_length.items():
            extents[length.bit_length() - 1] += number
            sizes[length.bit_length() - 1] += length * number
        device_bytes, bin_bytes = self.device_bytes, 1 << self._bin_power
        count, free_bytes = sum(extents), sum(sizes)
        powers = [power for power, number in enumerate(extents) if number]
        return {
            "used_bytes": device_bytes - free_bytes,
            "free_bytes": free_bytes,
            "fullness_percent": 100 * (device_bytes - free_bytes) / device_bytes,
            "free_extents": {
                "count": count,
                "largest_bytes": max(self._of_length, default=0),
                "mean_bytes": free_bytes / count if count else None,
                "histogram": [
                    {"from_bytes": 1 << power, "extents": extents[power], "bytes": sizes[power]}
                    for power in (range(powers[0], powers[-1] + 1) if powers else ())
                ],
            },
            "bitmap": {
                "bin_bytes": bin_bytes,
                "free_share": [
                    free / min(bin_bytes, device_bytes - number * bin_bytes) for number, free in enumerate(self._bins)
                ],
            },
            "aligned_free_share": {
                str(1 << power): (chunks << power) / free_bytes if free_bytes else None
                for power, chunks in zip(ALIGNED_POWERS, self._aligned)  # noqa: B905 (hosts: Python 3.9)
            },
        }

    def _look(self) -> None:
        """Check what was added; count all but the last extent. Raises ValueError."""
        starts, lengths = self._starts, self._lengths
        if not starts:
            return
        ends = list(map(operator.add, starts, lengths))
        before = [self._last[1], *ends[:-1]]
        apart = list(map(operator.gt, starts, before))  # from the one before
        if min(lengths) <= 0 or ends[-1] > self.device_bytes:
            self._refuse()
        if not all(apart):
            if any(map(operator.lt, starts, before)):
                self._refuse()
            starts, before = list(itertools.compress(starts, apart)), list(itertools.compress(before, apart))
        last = starts.pop() if starts else self._last[0]
        self._count([self._last[0], *starts][: len(before)], before)
        self._last = last, ends[-1]
        self._starts, self._lengths = [], []

    def _refuse(self) -> None:
        """Raise ValueError for the first that cannot be."""
        end = self._last[1]
        for start, length in zip(self._starts, self._lengths):  # noqa: B905 (hosts: Python 3.9)
            if start < end:
                raise ValueError(f"a free extent at {start}, after one up to {end}")
            end = start + length
            if length <= 0 or end > self.device_bytes:
                raise ValueError(
                    f"a free extent of {length} bytes at {start}, on a device of {self.device_bytes} bytes"
                )

    def _count(self, starts: list[int], ends: list[int]) -> None:
        """Count extents whose two ends are known; none may be the first, of no length."""
        if starts and not ends[0]:
            starts, ends = starts[1:], ends[1:]
        if not starts:
            return
        if self._keep:
            for start, end in zip(starts, ends):  # noqa: B905 (hosts: Python 3.9)
                self._keep(start, end)
        lengths = list(map(operator.sub, ends, starts))
        self._of_length.update(lengths)
        # Whole chunks, by the numbers of the first and of the one after the last.
        pairs = zip(starts, ends)  # noqa: B905 (hosts: Python 3.9)
        large = itertools.compress(pairs, map(MIB.__le__, lengths))
        chunks = [(-(-start >> MIB_POWER), end >> MIB_POWER) for start, end in large]
        for number in range(len(ALIGNED_POWERS)):
            chunks = [
                (first, last) for first, last in chunks if first < last
            ]  # where none fits, none of twice its size
            self._aligned[number] += sum(last - first for first, last in chunks)
            chunks = [((first + 1) >> 1, last >> 1) for first, last in chunks]
        if len(self._bins) == 1:
            self._bins[0] += sum(lengths)
            return
        upto, power = [0, *itertools.accumulate(lengths)], self._bin_power
        below = 0
        for number in range(starts[0] >> power, ((ends[-1] - 1) >> power) + 1):
            edge = (number + 1) << power
            whole = bisect_right(ends, edge)
            part = max(0, edge - starts[whole]) if whole < len(starts) else 0
            self._bins[number] += upto[whole] + part - below
            below = upto[whole] + part
