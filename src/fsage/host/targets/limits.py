"""What a target may still be given: as much as its claim allows, and as others leave on what it shares with them."""

from __future__ import annotations

import os
from pathlib import Path

from fsage.model.filler import SLACK_BYTES


class Limits:
    """Of a file system of its own, which ends where the target's claim does."""

    slack_bytes = 0
    """What is kept of the capacity."""

    def take(self, size: int, path: Path, spread: int) -> None:
        """Note that a file is given so many bytes more, in `spread` stripes (0: as declared). Raises Failure."""

    def allocated(self, path: Path) -> None:
        """Note that the file has what was taken for it."""

    def left(self) -> int | None:
        """What of the file system below is the target's; None where all of it is. Raises Failure."""
        return None

    def most(self, path: Path, left_bytes: int) -> int:
        """What a file can be given at once, where `left_bytes` of the capacity are left. Raises Failure.

        The file system knows best what it needs for itself.
        """
        return free_bytes(path) - SLACK_BYTES

    def freed(self) -> None:
        """Wait until what a file was cut by is free. Raises Failure."""


class Shared(Limits):
    """Of a directory: as much as its budget stays free for others."""

    slack_bytes = SLACK_BYTES

    def __init__(self, place: Path, capacity_bytes: int) -> None:
        self.place, self.capacity_bytes = place, capacity_bytes

    def left(self) -> int:
        """As Limits.left."""
        return free_bytes(self.place) - self.capacity_bytes

    def most(self, path: Path, left_bytes: int) -> int:
        """As Limits.most."""
        return min(left_bytes, self.left())


def free_bytes(place: Path) -> int:
    """What a user may still write on the file system that holds `place`."""
    stat = os.statvfs(place)
    return stat.f_bavail * stat.f_frsize
