"""Counting in numpy's arrays, where there is numpy: a text of 400 MB lists millions of free extents.

Servers have none: there the classes that these are made of count. Whichever counts, the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fsage.agent.evidence import runs
from fsage.agent.evidence.counting import Counting
from fsage.agent.evidence.freespace import ALIGNED_POWERS, MIB_POWER, FreeSpace
from fsage.agent.evidence.groups import STARTS, Groups

Counts = npt.NDArray[np.int64]
POWERS = 1 << np.arange(63, dtype=np.int64)
BATCH = 1 << 17  # extents that are counted together
DASH, SEMICOLON = b"-;"
BLANKS = bytes.maketrans(b"-,;", b"   ")


class InArrays(Counting):
    """Counting for where there is numpy; `keep` is given arrays."""

    def free_space(self, device_bytes: int, block_bytes: int, unit_bytes: int = 1) -> FreeSpace:
        """Who counts the free extents of a device."""
        return _FreeSpace(device_bytes, block_bytes, self.bins, self.keep, unit_bytes)

    def groups(self, kind: str) -> Groups:
        """Who counts its groups."""
        return _Groups(kind)


class _FreeSpace(FreeSpace):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._pending: list[tuple[Counts, Counts]] = []
        self._of_power = np.zeros((2, len(POWERS)), dtype=np.int64)  # extents, and units
        self._largest = 0

    def add_listed(self, lists: Iterable[bytes], more: int) -> list[int]:
        lists = list(lists)
        lengths = np.zeros(len(lists), dtype=np.int64)
        if some := list(filter(None, lists)):
            starts, ends, first = _runs(some, more)
            self._take(starts, ends)
            self._look()  # before anything is made of numbers that cannot be
            lengths[list(map(bool, lists))] = np.add.reduceat(ends - starts, first)
        found: list[int] = lengths.tolist()
        return found

    def _take(self, starts: Any, ends: Any) -> None:
        try:
            self._pending.append((np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)))
        except OverflowError:  # numbers of Python's know no bounds
            self._refuse(starts, ends)
        if sum(len(some) for some, _ in self._pending) >= BATCH:
            self._look()

    def _look(self) -> None:
        if not self._pending:
            return
        starts, ends = map(np.concatenate, zip(*self._pending, strict=True))
        self._pending = []
        if not len(starts):
            return
        before = np.concatenate(([self._last[1]], ends[:-1]))
        wrong = (ends <= starts) | (starts < before) | (ends > self.device_bytes >> self._unit_power)
        if wrong.any():
            self._refuse(starts.tolist(), ends.tolist())
        apart = starts != before
        begins = np.concatenate(([self._last[0]], starts[apart]))
        self._last = int(begins[-1]), int(ends[-1])
        self._count(begins[:-1], before[apart])

    def _count(self, starts: Any, ends: Any) -> None:
        starts, ends = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)
        if len(starts) and not ends[0]:
            starts, ends = starts[1:], ends[1:]
        if not len(starts):
            return
        if self._keep:
            self._keep(starts * self.unit_bytes, ends * self.unit_bytes)
        lengths = ends - starts
        self._largest = max(self._largest, int(lengths.max()))
        of = np.searchsorted(POWERS, lengths, side="right") - 1
        np.add.at(self._of_power[0], of, 1)
        np.add.at(self._of_power[1], of, lengths)
        large = lengths >> (MIB_POWER - self._unit_power) > 0
        self._count_aligned(starts[large], ends[large])
        self._count_bins(starts, ends, lengths)

    def _count_aligned(self, starts: Counts, ends: Counts) -> None:
        for number, power in enumerate(ALIGNED_POWERS):
            first, last = -(-starts >> (power - self._unit_power)), ends >> (power - self._unit_power)
            self._aligned[number] += int(np.maximum(last - first, 0).sum())

    def _count_bins(self, starts: Counts, ends: Counts, lengths: Counts) -> None:
        power = self._bin_power - self._unit_power
        first, last = int(starts[0]) >> power, (int(ends[-1]) - 1) >> power
        edges = np.arange(first + 1, last + 1) << power
        whole = np.searchsorted(ends, edges, side="right")  # extents that end before an edge; the next may reach over
        upto = np.concatenate(([0], np.cumsum(lengths)))
        below = np.concatenate(([0], upto[whole] + np.maximum(0, edges - starts[whole]), upto[-1:]))
        for number, units in enumerate(np.diff(below).tolist(), first):
            self._bins[number] += units * self.unit_bytes

    def _by_power(self) -> tuple[list[int], list[int], int]:
        extents, units = ([0] * self._unit_power + of for of in self._of_power.tolist())
        return extents, [number * self.unit_bytes for number in units], self._largest * self.unit_bytes


class _Groups(Groups):
    def _count(self, buckets: list[int], whole: Sequence[int], free: Sequence[int]) -> None:
        parts = np.asarray(free, dtype=np.int64)
        of = np.where(parts > 0, 1 + np.searchsorted(STARTS, parts / np.asarray(whole), side="right"), 0)
        for number, groups in enumerate(np.bincount(of, minlength=len(buckets)).tolist()):
            buckets[number] += groups


def _runs(lists: Sequence[bytes], more: int) -> tuple[Counts, Counts, Counts]:
    """Where the runs of all lists begin and end, and which is the first of each list. Raises ValueError."""
    text = b"; ".join(lists)
    bare = text.translate(None, runs.DIGITS).replace(b", ", b",").replace(b"; ", b";")
    known = not bare.translate(None, b"-,;")
    numbers = np.fromstring(text.translate(BLANKS) if known else b"", dtype=np.int64, sep=" ")
    between = np.frombuffer(bare, dtype=np.uint8)
    dashes = between == DASH
    if len(numbers) != len(between) + 1 or (dashes[1:] & dashes[:-1]).any():
        for one in lists:
            runs.runs(one, more)  # says which
        raise ValueError("a run of blocks is no number, and no two with a dash between them")
    begins, ends = np.concatenate(([True], ~dashes)), np.concatenate((~dashes, [True]))
    of_lists = np.concatenate(([True], between == SEMICOLON))[begins]
    return numbers[begins], numbers[ends] + more, np.flatnonzero(of_lists)
