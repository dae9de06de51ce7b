"""What is refused first while a file system fills with files as large as now, and at which fullness: an interval.

It is between two ways to fill: the largest free extents are used up first, or last. A test
(tests/test_forecast.py) fills 60 small file systems of ext4 and XFS to their first ENOSPC. It compares that with what
was forecast at half time.
"""

from __future__ import annotations

from typing import NamedTuple

from fsage.model import MIB, filesystems
from fsage.model.evidence import placement
from fsage.model.typed import Json

LIKE_NOW = 1.25
"""Files to come are on average at most so many times as large or as small as those that are there."""
ROOM_OF_ONE = 16
LEAST_ROOM = MIB
"""A file is refused while so many times the mean file is free, or what a file system keeps back for its trees."""
INODE_BYTES = 512


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
