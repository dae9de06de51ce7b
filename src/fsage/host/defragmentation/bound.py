"""An upper bound on what defragmenting a file gains when it is read cold, from its first byte to its last.

The model: each extent costs a seek, and each byte its share of the transfer rate, so reading takes
`extents * seek_s + bytes / bytes_per_s`. A contiguous file would cost `ideal_extents` seeks. The difference is a bound
and no forecast. A short jump, a jump within read-ahead, or one that is queued with others, costs less than a seek.
Other orders of reading gain other amounts.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import mmap
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fsage.model.evidence.fragmentation import Extent, Fragmentation

STATEMENT = "an upper bound: a whole seek for each extent, none hidden by reading ahead"
MEASURE_S = 0.5  # for each of the two
LONGEST = 64  # extents to measure in
AT_LEAST_BYTES = 8 << 20
SEQUENTIAL_BYTES = 1 << 20
RANDOM_BYTES = 4096
SEED = 67005

Place = tuple[int, str, int]  # length, path, offset in the file


@dataclass(frozen=True)
class Device:
    """The cost of a seek, the transfer rate, and the source of both."""

    seek_s: float
    bytes_per_s: float
    source: str

    def read_s(self, file: Fragmentation) -> float:
        """Seconds that reading the file cold takes at most."""
        return file.extents * self.seek_s + file.bytes / self.bytes_per_s

    def gain_s(self, file: Fragmentation) -> float:
        """Seconds that defragmenting it could save at most."""
        return file.excess * self.seek_s

    def ratio(self, file: Fragmentation) -> float:
        """The factor by which reading it could become faster at most."""
        left_s = self.read_s(file) - self.gain_s(file)
        return self.read_s(file) / left_s if left_s else 1.0


class Longest:
    """The longest written extents of all files that were added (`add`), on which the device can be measured."""

    def __init__(self) -> None:
        self._heap: list[Place] = []

    def add(self, path: Path, extents: list[Extent]) -> None:
        """Consider the extents of one file."""
        for extent in extents:
            if not extent.unwritten and extent.length >= SEQUENTIAL_BYTES:
                heapq.heappush(self._heap, (extent.length, str(path), extent.logical))
                if len(self._heap) > LONGEST:
                    heapq.heappop(self._heap)

    def measure(self) -> Device:
        """Read at most half a second in order, and half a second at random places, past the cache. Raises ValueError.

        The seek is the mean time of a random read of 4 KiB, its transfer in it. Nothing is written, not even the time
        of access where that can be helped.
        """
        places = [place for place in sorted(self._heap, reverse=True) if _whole(place)]
        if sum(length for length, *_ in places) < AT_LEAST_BYTES:
            raise ValueError("less than 8 MiB lies in extents of 1 MiB and more, too little to measure the device")
        try:
            bytes_per_s = 1 / _seconds_per(_in_order(places), SEQUENTIAL_BYTES) * SEQUENTIAL_BYTES
            seek_s = _seconds_per(_at_random(places), RANDOM_BYTES)
        except OSError as error:
            raise ValueError(f"the device cannot be measured: {error.filename}: {error.strerror}") from error
        return Device(seek_s, bytes_per_s, "measured on these files by reading, past the cache")


def _whole(place: Place) -> bool:
    """Whether the extent lies within the file: a read beyond its end returns nothing."""
    length, path, offset = place
    try:
        return os.stat(path).st_size >= offset + length
    except OSError:
        return False


def _in_order(places: list[Place]) -> Iterator[tuple[str, int]]:
    for length, path, offset in places:
        yield from ((path, at) for at in range(offset, offset + length - SEQUENTIAL_BYTES + 1, SEQUENTIAL_BYTES))


def _at_random(places: list[Place]) -> Iterator[tuple[str, int]]:
    draw = random.Random(SEED)
    while True:
        length, path, offset = draw.choices(places, weights=[place[0] for place in places])[0]
        yield path, offset + draw.randrange(length // RANDOM_BYTES) * RANDOM_BYTES


def _seconds_per(reads: Iterator[tuple[str, int]], size: int) -> float:
    """Mean time of a read of `size` bytes at these places, in MEASURE_S of them or as many as there are."""
    buffer = mmap.mmap(-1, size)  # aligned, as O_DIRECT asks
    spent_s, done = 0.0, 0
    for path, same in itertools.groupby(reads, key=lambda read: read[0]):
        fd = _open(path)
        try:
            for _, offset in same:
                began = time.perf_counter()
                if os.preadv(fd, [buffer], offset) != size:
                    raise OSError(errno.EIO, "it ended early: somebody writes to it", path)
                spent_s, done = spent_s + time.perf_counter() - began, done + 1
                if spent_s > MEASURE_S:
                    return spent_s / done
        finally:
            os.close(fd)
    return spent_s / done


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_NOATIME)
    except PermissionError:  # somebody else's file
        return os.open(path, os.O_RDONLY | os.O_DIRECT)
