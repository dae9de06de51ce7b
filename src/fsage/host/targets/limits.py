"""How much more a target's files may take: the rest of its claim, and on a shared file system what others leave."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.model.evidence.lfs_df import Ost
from fsage.model.filler import SLACK_BYTES


class Limits:
    """The limits of a target with file systems of its own, which are as large as its claim."""

    slack_bytes = 0
    """Bytes of the capacity that stay free."""

    def take(self, size: int, path: Path, spread: int) -> None:
        """Note that a file is given so many bytes more, in `spread` stripes (0: as declared). Raises Failure."""

    def allocated(self, path: Path) -> None:
        """Note that the file has what was taken for it."""

    def left(self) -> int | None:
        """Bytes that the target may still take of the file system below; None: all of it. Raises Failure."""
        return None

    def most(self, path: Path, left_bytes: int) -> int:
        """Bytes that a file can be given at once, where `left_bytes` of the capacity are left. Raises Failure."""
        return free_bytes(path) - SLACK_BYTES  # by the file system's own count: it knows what it needs for itself

    def freed(self) -> None:
        """Wait until the blocks that a truncated file lost are free. Raises Failure."""


class Shared(Limits):
    """The limits of a directory: as many bytes as its budget stay free for others."""

    slack_bytes = SLACK_BYTES

    def __init__(self, place: Path, capacity_bytes: int) -> None:
        self.place, self.capacity_bytes = place, capacity_bytes

    def left(self) -> int:
        return free_bytes(self.place) - self.capacity_bytes

    def most(self, path: Path, left_bytes: int) -> int:
        return min(left_bytes, self.left())


def free_bytes(place: Path) -> int:
    """Bytes that a user may still write on the file system that holds `place`."""
    stat = os.statvfs(place)
    return stat.f_bavail * stat.f_frsize


class Free(NamedTuple):
    """The free space of a store.

    `counted`: counts that repeat exactly while nobody writes, as text; None where none do. `osts`: on Lustre the used
    bytes of each OST.
    """

    bytes: int
    counted: str | None = None
    osts: dict[str, int] | None = None


Wrong = Callable[[Sequence[Ost]], list[str]]
"""Gives a sentence for each OST that does not hold what it should; none when all do."""


def nothing(now: Sequence[Ost]) -> list[str]:
    """Find nothing wrong: for callers that do not know what the OSTs should hold."""
    return []
