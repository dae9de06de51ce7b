"""How new files will lie, and what is refused first while a file system fills with files as large as now.

The fullness at which that happens is an interval between two ways to fill: the largest free extents are used up first,
or last. A test (tests/test_forecast.py) fills 60 small file systems of ext4 and XFS to their first ENOSPC. It compares
that with what was forecast at half time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fsage.base import GIB, MIB, Json
from fsage.base.sizes import format_size, round_size
from fsage.layouts import filesystems, placement

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


def new_files(store: Json, mounted: dict[str, int] | None, direct: bool = False) -> list[NewFile]:
    """How new files of NEW_FILES would lie in a Store.summary; none where its free extents are not known.

    `direct`: written past the cache; none where that is not known, or no other than through it.
    """
    filesystem = filesystems.like(store["filesystem"])
    way = filesystem.placement if filesystem else None
    if direct:
        way = filesystem.placement_direct if filesystem and filesystem.placement_direct is not way else None
    if not store["free_extents"] or (direct and not way):
        return []
    free = placement.classes(store["free_extents"])
    if mounted:
        room = min(store["free_bytes"], mounted["available_bytes"])
    else:
        room = store["free_bytes"]
    return [_new_file(way, size, free) if free and size <= room else NewFile(size, None, None) for size in NEW_FILES]


def _new_file(way: placement.Placement | None, size_bytes: int, free: list[placement.Extents]) -> NewFile:
    if way:
        low, high = way.pieces(size_bytes, free)
    else:
        low = placement.FEWEST.pieces(size_bytes, free)[0]
        high = placement.as_they_come(size_bytes, free)
    return NewFile(size_bytes, round(low), round(max(low, high)))


def sentence(store: Json, files: Sequence[NewFile], direct: Sequence[NewFile]) -> str:
    """How new files would lie: through the cache, and past it, where these differ and are known."""
    filesystem = filesystems.like(store["filesystem"])
    how = "from the largest free extents first, to as they come: how this file system chooses is not known"
    way = ""
    past = None
    if filesystem and filesystem.placement:
        past = filesystem.placement_direct
        how = f"as {filesystem.title} chooses: {filesystem.placement.says}"
        if past is filesystem.placement:
            way = " through the cache or past it"
        else:
            way = " through the cache"
    fitting = [new_file for new_file in files if new_file.high is not None]
    if not fitting:
        return f"No new file of {round_size(files[0].size_bytes)} fits."
    too_large = next(
        (f"; one of {round_size(new_file.size_bytes)} does not fit" for new_file in files if new_file.high is None), ""
    )
    sentence = f"A new file that is written alone and at once{way}, {_lie(fitting)} ({how}){too_large}."
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


def used_up(store: Json, free: list[placement.Extents]) -> str:
    """Which free extents are used up first, at which fullness at the earliest."""
    device_bytes = store["device_bytes"]
    now = store["fullness_percent"]
    largest = store["free_extents"]["largest_bytes"]
    still_bytes = next((size for size in RUNS if size <= largest), None)
    if still_bytes is None:
        if free:
            return f"Now no free extent holds {round_size(RUNS[-1])}."
        return ""
    if device_bytes is None:
        return ""
    smaller = sum(size_class.bytes for size_class in free if size_class.low < still_bytes)
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


def first_refused(store: Json, mounted: dict[str, int] | None) -> Refused | None:
    """What lacks first; None where the text does not say how large device and files are."""
    device_bytes = store["device_bytes"]
    free = store["free_extents"]
    if not mounted or not device_bytes or not free or mounted["inodes"] <= mounted["free_inodes"]:
        return None
    now = store["fullness_percent"]
    room = min(mounted["available_bytes"], store["free_bytes"])
    # statvfs leaves out what the file system keeps for itself, such as tables of inodes.
    mean_bytes = (mounted["bytes"] - mounted["free_bytes"]) / (mounted["inodes"] - mounted["free_inodes"])

    def refused(least_bytes: float, most_bytes: float, lacks: str) -> Refused:
        """After so much more was written."""
        low, high = (now + 100 * min(more, room) / device_bytes for more in (least_bytes, most_bytes))
        return Refused(low, high, lacks)

    found = [refused(max(0, room - max(ROOM_OF_ONE * mean_bytes, LEAST_ROOM)), room, "no block is left for users")]
    system = filesystems.like(store["filesystem"])
    if system and system.fixed_inodes:
        more = mounted["free_inodes"] * mean_bytes
        found.append(refused(more / LIKE_NOW, more * LIKE_NOW, "no inode is left"))
    if system and system.inodes_together:
        chunk = system.inodes_together * ((store["geometry"] or {}).get("inode_bytes") or INODE_BYTES)
        held_bytes = sum(extents.bytes for extents in placement.classes(free) if extents.low >= 2 * chunk)
        found.append(refused(held_bytes, room, f"no free extent holds {chunk >> 10} KiB for inodes"))
    first = min(found, key=lambda forecast: forecast.low_percent)
    return first._replace(high_percent=min(forecast.high_percent for forecast in found))
