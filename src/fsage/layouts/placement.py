"""How a file system chooses blocks for a new file, and in about how many pieces that lies in a store's free space.

Only the sizes of the free extents are known (FreeSpace.summary, `free_extents`), and not which of them are near each
other. So the numbers are estimates. docs/howto/full.md shows how well they agree with files that were written.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

from fsage.base import Json


class Extents(NamedTuple):
    """Free extents of one power of two: `number` of them, `bytes` in all, each from `low` to below twice that."""

    low: int
    number: int
    bytes: int


def classes(free_extents: Json) -> list[Extents]:
    """The free extents of a store, the largest first."""
    extents = [
        Extents(bucket["from_bytes"], bucket["extents"], bucket["bytes"]) for bucket in free_extents["histogram"]
    ]
    return [bucket for bucket in reversed(extents) if bucket.number]


class Placement(ABC):
    """A way to choose."""

    says: str
    """What it does, as the end of a sentence."""

    @abstractmethod
    def pieces(self, size_bytes: int, free: list[Extents]) -> tuple[float, float]:
        """In how many pieces a new file would lie, from and to. `free`: the largest first; together they hold it."""


class LargestFirst(Placement):
    """It takes the largest extents, which gives the fewest pieces; XFS and btrfs do about that.

    XFS looks for the length that it wants. Where no group has that, it takes the longest
    (xfs_bmap_btalloc_select_lengths, fs/xfs/libxfs/xfs_bmap.c). btrfs keeps the free space of a block group by size,
    largest first (fs/btrfs/free-space-cache.c).
    """

    says = "the largest free extents first"

    def pieces(self, size_bytes: int, free: list[Extents]) -> tuple[float, float]:
        left = size_bytes
        pieces = 0.0
        for extents in free:
            if extents.bytes >= left:
                pieces += _of(extents, left)
                break
            left = left - extents.bytes
            pieces = pieces + extents.number
        return pieces, pieces


def _of(extents: Extents, size_bytes: int) -> float:
    """How many of a class hold so much, the largest first, where lengths are spread evenly about their mean."""
    high = max(2 * extents.bytes / extents.number - extents.low, float(extents.low))
    step = (high - extents.low) / extents.number
    if not step:
        return math.ceil(size_bytes / high)
    return max(1, math.ceil((high - math.sqrt(max(0.0, high**2 - 2 * step * size_bytes))) / step))


class ByRequest(Placement):
    """It looks for `request_bytes` at a time, in any extent that holds them, and continues behind them while it can.

    Where no extent holds them it tries halves, down to `least_bytes`. Then it takes the best of some extents that it
    examines, which gives a range of results. ext4 does that; its writes request 8 MiB, aligned (CR_POWER2_ALIGNED to
    CR_ANY_FREE, fs/ext4/mballoc.c).
    """

    def __init__(self, request_bytes: int, least_bytes: int) -> None:
        self.request_bytes = request_bytes
        self.least_bytes = least_bytes
        self.says = f"{request_bytes >> 20} MiB at a time, in any free extent that holds them"

    def pieces(self, size_bytes: int, free: list[Extents]) -> tuple[float, float]:
        request = min(self.request_bytes, 1 << (size_bytes - 1).bit_length())
        first = _held(request, free)
        if size_bytes <= first.used:
            pieces = first.pieces(size_bytes)
            return pieces, pieces
        worst = first.pieces(first.used) + as_they_come(size_bytes - first.used, first.smaller)
        left = size_bytes
        best = 0.0
        buckets = first
        while True:
            taken = min(left, buckets.bytes)
            left = left - taken
            best = best + buckets.pieces(taken)
            request //= 2
            if left <= 0 or request < self.least_bytes:
                break
            buckets = _held(request, buckets.smaller)
        return best + (as_they_come(left, buckets.smaller) / BEST_OF_SOME if left > 0 else 0), worst


class NearestFirst(Placement):
    """It looks for `request_bytes` at a time, in the nearest extent that holds them; where none does, in the longest.

    XFS does that for writes past the cache. It maps at most 4 MiB of such a write at a time
    (xfs_direct_write_iomap_begin, fs/xfs/xfs_iomap.c), and takes the nearest extent that holds them
    (xfs_alloc_ag_vextent_near, fs/xfs/libxfs/xfs_alloc.c). Through the cache it knows the whole file beforehand.
    Which extents are near is not known: the range is from extents of the mean size to those of the median.
    """

    def __init__(self, request_bytes: int) -> None:
        self.request_bytes = request_bytes
        self.says = f"{request_bytes >> 20} MiB at a time, in the nearest free extent that holds them"

    def pieces(self, size_bytes: int, free: list[Extents]) -> tuple[float, float]:
        buckets = _held(min(self.request_bytes, 1 << (size_bytes - 1).bit_length()), free)
        within = min(size_bytes, buckets.used)
        if within < size_bytes:
            rest = FEWEST.pieces(size_bytes - within, buckets.smaller)[0]
        else:
            rest = 0.0
        if not within or within <= self.request_bytes:
            return rest + bool(within), rest + bool(within)
        at_most = min(float(buckets.number), 1 + within / _median(free[: len(free) - len(buckets.smaller)]))
        low = buckets.pieces(within)
        return rest + low, rest + max(low, at_most)


def _median(free: list[Extents]) -> int:
    """The size that at least half of these extents have."""
    number = 0
    for bucket in free:
        number += bucket.number
        if 2 * number >= sum(other.number for other in free):
            break
    return bucket.low


class _Held(NamedTuple):
    """Extents that hold a whole request: so many `bytes`, of which aligned requests use `used`; and the `smaller`."""

    number: int
    bytes: int
    used: int
    smaller: list[Extents]

    def pieces(self, size_bytes: int) -> float:
        """In how many of them so much lies."""
        if self.used and size_bytes:
            return max(1.0, size_bytes * self.number / self.used)
        return 0.0


def _held(request: int, free: list[Extents]) -> _Held:
    buckets = [bucket for bucket in free if bucket.low >= request]
    # An aligned request begins somewhere in the extent: half of one lies unused before it.
    used = sum(max(bucket.number * request, bucket.bytes - bucket.number * request // 2) for bucket in buckets)
    return _Held(
        sum(bucket.number for bucket in buckets), sum(bucket.bytes for bucket in buckets), used, free[len(buckets) :]
    )


BEST_OF_SOME = 1.5
"""So many times the mean free extent was the mean piece, on ext4 of Linux 6.18 that was filled and emptied for long."""


FEWEST = LargestFirst()


def as_they_come(size_bytes: int, free: list[Extents]) -> float:
    """The pieces where each free extent is as likely to be taken as any other, whatever its size."""
    whole = sum(bucket.bytes for bucket in free)
    if whole:
        return max(1.0, size_bytes * sum(bucket.number for bucket in free) / whole)
    return 1.0
