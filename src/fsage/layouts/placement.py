"""How new files will lie, and what is refused first while a file system fills with files as large as now.

It depends on how a file system chooses blocks for a new file, and in about how many pieces that lies in free space.

Only the sizes of the free extents are known (FreeSpace.summary, `free_extents`), and not which of them are near each
other. So the numbers are estimates. docs/howto/full.md shows how well they agree with files that were written.

The fullness at which a file is first refused is an interval between two ways to fill: the largest free extents are used
up first, or last. A test (tests/test_forecast.py) fills 60 small file systems of ext4 and XFS to their first ENOSPC. It
compares that with what was forecast at half time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from fsage.base import GIB, MIB, Json
from fsage.base.sizes import format_size, round_size
from fsage.layouts.store import SizeClass

if TYPE_CHECKING:
    from fsage.layouts.filesystems import FileSystem


def classes(free_extents: Json) -> list[SizeClass]:
    """The free extents of a store, the largest first."""
    return [SizeClass(**row) for row in reversed(free_extents["histogram"]) if row["extents"]]


class Placement(ABC):
    """A way to choose."""

    says: str
    """What it does, as the end of a sentence."""

    @abstractmethod
    def pieces(self, size_bytes: int, free: list[SizeClass]) -> tuple[float, float]:
        """In how many pieces a new file would lie, from and to. `free`: the largest first; together they hold it."""


class LargestFirst(Placement):
    """It takes the largest extents, which gives the fewest pieces; XFS and btrfs do about that.

    XFS looks for the length that it wants. Where no group has that, it takes the longest
    (xfs_bmap_btalloc_select_lengths, fs/xfs/libxfs/xfs_bmap.c). btrfs keeps the free space of a block group by size,
    largest first (fs/btrfs/free-space-cache.c).
    """

    says = "the largest free extents first"

    def pieces(self, size_bytes: int, free: list[SizeClass]) -> tuple[float, float]:
        left = size_bytes
        pieces = 0.0
        for size_class in free:
            if size_class.bytes >= left:
                pieces += _of(size_class, left)
                break
            left -= size_class.bytes
            pieces += size_class.extents
        return pieces, pieces


def _of(own: SizeClass, size_bytes: int) -> float:
    """How many of a class hold so much, the largest first, where lengths are spread evenly about their mean."""
    high = max(2 * own.bytes / own.extents - own.from_bytes, float(own.from_bytes))
    step = (high - own.from_bytes) / own.extents
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

    def pieces(self, size_bytes: int, free: list[SizeClass]) -> tuple[float, float]:
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
            left -= taken
            best += buckets.pieces(taken)
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

    def pieces(self, size_bytes: int, free: list[SizeClass]) -> tuple[float, float]:
        buckets = _held(min(self.request_bytes, 1 << (size_bytes - 1).bit_length()), free)
        within = min(size_bytes, buckets.used)
        rest = 0.0
        if within < size_bytes:
            rest = FEWEST.pieces(size_bytes - within, buckets.smaller)[0]
        if not within or within <= self.request_bytes:
            return rest + bool(within), rest + bool(within)
        at_most = min(float(buckets.number), 1 + within / _median(free[: len(free) - len(buckets.smaller)]))
        low = buckets.pieces(within)
        return rest + low, rest + max(low, at_most)


def _median(free: list[SizeClass]) -> int:
    """The size that at least half of these extents have."""
    number = 0
    for bucket in free:
        number += bucket.extents
        if 2 * number >= sum(other.extents for other in free):
            break
    return bucket.from_bytes


class _Held(NamedTuple):
    """Extents that hold a whole request: so many `bytes`, of which aligned requests use `used`; and the `smaller`."""

    number: int
    bytes: int
    used: int
    smaller: list[SizeClass]

    def pieces(self, size_bytes: int) -> float:
        """In how many of them so much lies."""
        if self.used and size_bytes:
            return max(1.0, size_bytes * self.number / self.used)
        return 0.0


def _held(request: int, free: list[SizeClass]) -> _Held:
    buckets = [bucket for bucket in free if bucket.from_bytes >= request]
    # An aligned request begins somewhere in the extent: half of one lies unused before it.
    used = sum(max(bucket.extents * request, bucket.bytes - bucket.extents * request // 2) for bucket in buckets)
    return _Held(
        sum(bucket.extents for bucket in buckets), sum(bucket.bytes for bucket in buckets), used, free[len(buckets) :]
    )


BEST_OF_SOME = 1.5
"""So many times the mean free extent was the mean piece, on ext4 of Linux 6.18 that was filled and emptied for long."""


FEWEST = LargestFirst()


def as_they_come(size_bytes: int, free: list[SizeClass]) -> float:
    """The pieces where each free extent is as likely to be taken as any other, whatever its size."""
    whole = sum(bucket.bytes for bucket in free)
    if whole:
        return max(1.0, size_bytes * sum(bucket.extents for bucket in free) / whole)
    return 1.0


NEW_FILES = (MIB, 64 * MIB, GIB)
"""Sizes of which is said how a new file would lie."""
RUNS = (GIB, 64 * MIB, 8 * MIB, MIB)
"""Sizes of free extents of which is said when there are none left."""
TOGETHER = "Files that grow together, a bit each in turn, can have an extent for each bit, however free space lies."
LIKE_NOW = 1.25
"""Files to come are on average at most so many times as large or as small as those that are there."""
ROOM_OF_ONE = 16
LEAST_ROOM = MIB
"""A file is refused while so many times the mean file is free, or what a file system keeps back for its trees."""
INODE_BYTES = 512


class NewFile(NamedTuple):
    """How many extents a new file of `size_bytes` would have: from `low` to `high`; None: there is no room for it."""

    size_bytes: int
    low: int | None
    high: int | None

    @property
    def name(self) -> str:
        """What --fail-on calls it: extents_64M."""
        return f"extents_{format_size(self.size_bytes)}"

    def words(self) -> str:
        """'1 extent', 'about 12 extents', '3 to 40 extents'; '' where there is no room."""
        if self.low is None or self.high is None:
            return ""
        low = _two_digits(self.low)
        high = _two_digits(self.high)
        if low == high:
            if high == 1:
                return "1 extent"
            return f"about {high:,} extents"
        return f"{low:,} to {high:,} extents"


def new_files(system: FileSystem, store: Json, mounted: dict[str, int] | None, direct: bool = False) -> list[NewFile]:
    """How new files of NEW_FILES would lie in a Store.summary; none where its free extents are not known.

    `direct`: written past the cache; none where that is not known, or no other than through it.
    """
    way = system.placement
    if direct:
        way = system.placement_direct
    if not store["free_extents"] or (direct and way in (None, system.placement)):
        return []
    free = classes(store["free_extents"])
    room = store["free_bytes"]
    if mounted:
        room = min(room, mounted["available_bytes"])
    files = []
    for size in NEW_FILES:
        if not free or size > room:
            files.append(NewFile(size, None, None))
            continue
        if way:
            low, high = way.pieces(size, free)
        else:
            low = FEWEST.pieces(size, free)[0]
            high = as_they_come(size, free)
        files.append(NewFile(size, round(low), round(max(low, high))))
    return files


def sentence(system: FileSystem, files: Sequence[NewFile], direct: Sequence[NewFile]) -> str:
    """How new files would lie: through the cache, and past it, where these differ and are known."""
    how = "from the largest free extents first, to as they come: how this file system chooses is not known"
    way = ""
    past = system.placement_direct
    if system.placement:
        how = f"as {system.title} chooses: {system.placement.says}"
        way = " through the cache or past it" if past is system.placement else " through the cache"
    fitting = [new_file for new_file in files if new_file.high is not None]
    if not fitting:
        return f"No new file of {round_size(files[0].size_bytes)} fits."
    too_large = [new_file for new_file in files if new_file.high is None]
    more = f"; one of {round_size(too_large[0].size_bytes)} does not fit" if too_large else ""
    sentence = f"A new file that is written alone and at once{way}, {_lie(fitting)} ({how}){more}."
    if past and (fitting := [new_file for new_file in direct if new_file.high is not None]):
        lie = _lie(fitting).replace(", would", " would", 1)
        sentence += f" Written past the cache (O_DIRECT), as fsage age measures, one {lie} ({past.says})."
    return f"{sentence} {TOGETHER}"


def _lie(fitting: Sequence[NewFile]) -> str:
    """'of up to 64 MiB, would have 1 extent, of 1 GiB in about 3 extents'."""
    whole = [new_file for new_file in fitting if new_file.high == 1]
    parts = [
        f"of {round_size(new_file.size_bytes)} in {new_file.words()}" for new_file in fitting if new_file.high != 1
    ]
    if whole:
        up_to = "up to " if len(whole) > 1 else ""
        parts.insert(0, f"of {up_to}{round_size(whole[-1].size_bytes)} in 1 extent")
    return ", ".join(parts).replace(" in ", ", would have ", 1)


def used_up(store: Json, free: list[SizeClass]) -> str:
    """Which free extents are used up first, at which fullness at the earliest."""
    device_bytes = store["device_bytes"]
    now = store["fullness_percent"]
    largest = store["free_extents"]["largest_bytes"]
    still_bytes = next((size for size in RUNS if size <= largest), None)
    if still_bytes is None and free:
        return f"Now no free extent holds {round_size(RUNS[-1])}."
    if still_bytes is None or device_bytes is None:
        return ""
    smaller = sum(size_class.bytes for size_class in free if size_class.from_bytes < still_bytes)
    percent = 100 * (device_bytes - smaller) / device_bytes
    at = "Now" if percent <= now else f"At {percent:.1f}% full"
    return f"{at}, the last free extent of {round_size(still_bytes)} may be used up."


def _two_digits(pieces: int) -> int:
    digits = max(0, len(str(pieces)) - 2)
    return round(pieces / 10**digits) * 10**digits


class Refused(NamedTuple):
    """How full it is when that is first refused, in percent of the device, and what lacks."""

    low_percent: float
    high_percent: float
    lacks: str

    def sentence(self, now_percent: float) -> str:
        """'A new file is first refused at 91.0 to 94.8% full, for want of inodes.'."""
        low = f"{max(self.low_percent, now_percent):.1f}"
        high = f"{self.high_percent:.1f}"
        at = f"{low} to {high}%" if low != high else f"{high}%"
        return f"A user's new file, as large as those that are there, is first refused at {at} full: {self.lacks}."


def first_refused(system: FileSystem, store: Json, mounted: dict[str, int] | None) -> Refused | None:
    """What lacks first; None where the text does not say how large device and files are."""
    device_bytes = store["device_bytes"]
    free = store["free_extents"]
    if not mounted or not device_bytes or not free or mounted["inodes"] <= mounted["free_inodes"]:
        return None
    now = store["fullness_percent"]
    room = min(mounted["available_bytes"], store["free_bytes"])
    # statvfs leaves out what the file system keeps for itself, such as tables of inodes.
    mean_bytes = (mounted["bytes"] - mounted["free_bytes"]) / (mounted["inodes"] - mounted["free_inodes"])
    least_bytes = max(0, room - max(ROOM_OF_ONE * mean_bytes, LEAST_ROOM))
    most_bytes = room
    lacks = "no block is left for users"
    if system.fixed_inodes:
        more_bytes = mounted["free_inodes"] * mean_bytes
        most_bytes = min(most_bytes, more_bytes * LIKE_NOW)
        if more_bytes / LIKE_NOW < least_bytes:
            least_bytes = more_bytes / LIKE_NOW
            lacks = "no inode is left"
    if system.inodes_together:
        chunk = system.inodes_together * ((store["geometry"] or {}).get("inode_bytes") or INODE_BYTES)
        held_bytes = sum(row.bytes for row in classes(free) if row.from_bytes >= 2 * chunk)
        if held_bytes < least_bytes:
            least_bytes = held_bytes
            lacks = f"no free extent holds {chunk >> 10} KiB for inodes"
    return Refused(now + 100 * least_bytes / device_bytes, now + 100 * most_bytes / device_bytes, lacks)
