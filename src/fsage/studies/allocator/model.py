"""Planted free space, and the assignment of a phase: TASK.json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fsage.api.model import BLOCK_BYTES
from fsage.layouts.extents import Extents
from fsage.studies.replica.model import FreeSpace

Operation = Literal["warm_up", "fallocate", "fill", "make", "unlink"]


@dataclass(frozen=True)
class Assignment:
    """One phase: what is called, in which folder, for how many bytes or extents, and how long one call may take."""

    operation: Operation
    folder: str
    request_bytes: int
    extents: int
    limit_s: float


@dataclass(frozen=True)
class PlantFreeSpace(FreeSpace):
    """Fill the target to `fullness_percent`; what stays free lies in holes of `hole_bytes` at equal distances.

    With `run_bytes` so much of it lies in one run instead, which begins at `run_percent` of the device or at the first
    place after that where so much can be free: then it is known beforehand where a large request must end.
    """

    fullness_percent: float
    hole_bytes: int
    run_bytes: int
    run_percent: float

    def describe(self) -> str:
        if self.run_bytes:
            run = f", and a run of {self.run_bytes} bytes at {self.run_percent:g}%"
        else:
            run = ""
        return f"fill to {self.fullness_percent:g}% with holes of {self.hole_bytes} bytes{run}"

    def unavailable_because(self, capacity_bytes: int) -> str | None:
        """Why a target of this capacity has no room for the run, or for a block between its holes."""
        free = int(capacity_bytes * (1 - self.fullness_percent / 100))
        at = f"at fullness {self.fullness_percent:g}%"
        if self.run_bytes > free:
            return f"a run of {self.run_bytes} bytes is more than the {free} that are free {at}"
        holes = (free - self.run_bytes) // self.hole_bytes
        if holes * (self.hole_bytes + BLOCK_BYTES) > capacity_bytes - self.run_bytes:
            return f"holes of {self.hole_bytes} bytes have no block of 4 KiB between them {at}: give larger holes"
        return None

    def wanted(self, usable: Extents) -> Extents:
        """The free extents that stay of an empty target's. ValueError where there is no place for the run."""
        whole = sum(end - start for start, end in usable)
        free = round(whole * (1 - self.fullness_percent / 100))
        run = self._run(usable)
        holes = max(0, (free - self.run_bytes) // self.hole_bytes)
        wanted = list(self._holes(usable, holes, (whole - self.run_bytes) / holes if holes else 0.0, run))
        return sorted([*wanted, run] if self.run_bytes else wanted)

    def _run(self, usable: Extents) -> tuple[int, int]:
        """Where the run lies; its beginning is a multiple of its length, as an aligned request wants it."""
        if not self.run_bytes:
            return 0, 0
        earliest = int(usable[-1][1] * self.run_percent / 100)
        for start, end in usable:
            begin = -(-max(start, earliest) // self.run_bytes) * self.run_bytes
            if begin + self.run_bytes <= end:
                return begin, begin + self.run_bytes
        raise ValueError(f"no run of {self.run_bytes} bytes can be free from {self.run_percent:g}% of the device on")

    def _holes(self, usable: Extents, count: int, apart: float, run: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """`count` holes, each `apart` bytes of usable space after the one before; none touches another or the run."""
        passed = 0
        number = 0
        for start, end in _without(usable, run):
            last = start
            while number < count and (begin := start + round(number * apart) - passed) < end:
                begin = max(last, -(-begin // BLOCK_BYTES) * BLOCK_BYTES)
                number += 1
                if begin + self.hole_bytes <= end:
                    yield begin, begin + self.hole_bytes
                    last = begin + self.hole_bytes + BLOCK_BYTES
            passed += end - start


def _without(usable: Extents, run: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The extents without the run and a block on each side of it."""
    begin = run[0] - BLOCK_BYTES
    stop = run[1] + BLOCK_BYTES
    for start, end in usable:
        if end <= begin or start >= stop or run[0] == run[1]:
            yield start, end
            continue
        for part in ((start, begin), (stop, end)):
            if part[0] < part[1]:
                yield part


LINEAR_GROUPS = 4
"""Those that ext4 looks at in order before its lists (/sys/fs/ext4/DEVICE/mb_max_linear_groups)."""


def considered(run_group: int, optimized: bool) -> int:
    """Groups that ext4 considers for an aligned power of two that only a run in this group holds, from group 0 on.

    All that it needs must be in memory. From its lists it counts a group as it takes it, and again as it looks at it
    (fs/ext4/mballoc.c of Linux 6.18: ext4_mb_scan_groups_xa_range, ext4_mb_good_group_nolock).
    """
    in_order = run_group + 1
    if optimized and in_order > LINEAR_GROUPS:
        return LINEAR_GROUPS + 2
    return in_order
