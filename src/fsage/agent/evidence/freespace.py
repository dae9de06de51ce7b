"""Free extents of a device, counted as they come and not kept: the memory needed does not grow with their number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

MIB_POWER = 20
ALIGNED_POWERS = range(MIB_POWER, MIB_POWER + 7)  # the transfer sizes of the PaF study, 1 to 64 MiB


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
        self._lengths: defaultdict[int, int] = defaultdict(int)  # as many as differ: few beside the extents
        self._aligned = [0] * len(ALIGNED_POWERS)  # chunks
        self._bin_power = max(-(-device_bytes // bins) - 1, block_bytes - 1).bit_length()
        self._bins = [0] * (((device_bytes - 1) >> self._bin_power) + 1)
        self._begin = self._end = 0  # of the extent that the next one may still lengthen

    def add(self, extents: Iterable[tuple[int, int]]) -> int:
        """Count extents (start, length; bytes), ascending, neighbours joined; return their bytes. Raises ValueError."""
        added, count = 0, self._count
        begin, end, device_bytes = self._begin, self._end, self.device_bytes
        for start, length in extents:
            if start > end:
                if begin < end:
                    count(begin, end)
                begin = start
            elif start < end:
                raise ValueError(f"a free extent at {start}, after one up to {end}")
            end = start + length
            added += length
            if length <= 0 or end > device_bytes:
                raise ValueError(f"a free extent of {length} bytes at {start}, on a device of {device_bytes} bytes")
        self._begin, self._end = begin, end
        return added

    def summary(self) -> dict[str, Any]:
        """The keys used_bytes … aligned_free_share of a store's summary; nothing can be added after it.

        free_extents: by power of two, `from_bytes` included, twice that excluded. bitmap: share of each bin's bytes
        that is free, from the device's beginning, the last bin cut off at its end. aligned_free_share: by chunk size in
        bytes, share of the free bytes that lie in wholly free chunks that begin at a multiple of that size.
        """
        if self._begin < self._end:
            self._count(self._begin, self._end)
        self._begin = self._end = 0
        extents, sizes = [0] * 64, [0] * 64  # by power of two of their length
        for length, number in self._lengths.items():
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
                "largest_bytes": max(self._lengths, default=0),
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

    def _count(self, start: int, end: int) -> None:
        """Count the extent whose two ends are known. There may be millions."""
        length = end - start
        if self._keep:
            self._keep(start, end)
        self._lengths[length] += 1
        first, last = -(-start >> MIB_POWER), end >> MIB_POWER  # whole chunks lie from here to there, in their number
        bins, power = self._bins, self._bin_power
        if first < last:
            for number in range(len(ALIGNED_POWERS)):
                if first >= last:
                    break  # where no chunk fits, none of twice its size does
                self._aligned[number] += last - first
                first, last = (first + 1) >> 1, last >> 1
        first, last = start >> power, (end - 1) >> power
        if first == last:
            bins[first] += length
        else:
            bins[first] += ((first + 1) << power) - start
            bins[last] += end - (last << power)
            for number in range(first + 1, last):
                bins[number] = 1 << power
