"""How files lie: in how many extents, how well they are laid out, and which bytes of a file lie elsewhere later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from fsage.base import Json
from fsage.layouts.store import NotThisText


class Extent(NamedTuple):
    """One run of a file on its device; offsets and length in bytes."""

    logical: int
    physical: int
    length: int
    unwritten: bool


class Fragmentation(NamedTuple):
    """Extents of one file or, added up, of several.

    `extents`: runs that go on both in the file and on the device, written or not. `ideal_extents`: runs that go on in
    the file, since a hole has to stay one. `bytes`: those that have a place.
    """

    files: int
    extents: int
    ideal_extents: int
    bytes: int

    @property
    def excess(self) -> int:
        """Jumps on the device that the file does not ask for."""
        return self.extents - self.ideal_extents

    @property
    def factor(self) -> float:
        """The fragmentation factor (actual - ideal) / actual of `xfs_db -c frag` (db/frag.c), 0 where nothing is.

        xfs_db counts the records of its trees, of which one holds at most 8 GiB; here such records are one extent when
        they lie side by side. It counts directories too, which FIEMAP does not show. And on a mounted XFS it is stale.
        """
        if self.extents:
            return self.excess / self.extents
        return 0.0

    def plus(self, other: Fragmentation, sign: int = 1) -> Fragmentation:
        """Both together; with sign -1 the one without the other."""
        return Fragmentation(*(own + sign * added for own, added in zip(self, other)))

    def summary(self) -> dict[str, float]:
        """The numbers by name, the factor among them."""
        return {**self._asdict(), "fragmentation_factor": self.factor}


NONE = Fragmentation(0, 0, 0, 0)


def of_file(extents: list[Extent]) -> Fragmentation:
    """The fragmentation of a file with these extents, in logical order."""
    runs = ideal = length = 0
    logical_end = physical_end = -1
    for extent in extents:
        ideal += extent.logical != logical_end
        runs += extent.logical != logical_end or extent.physical != physical_end
        length += extent.length
        logical_end = extent.logical + extent.length
        physical_end = extent.physical + extent.length
    return Fragmentation(1, runs, ideal, length)


def moved_bytes(before: list[Extent], after: list[Extent]) -> int:
    """How many bytes of the file have another place on the device than before."""
    moved = sum(extent.length for extent in after)
    old = iter(before)
    was = next(old, None)
    for now in after:
        while was and was.logical < now.logical + now.length:
            overlap = min(was.logical + was.length, now.logical + now.length) - max(was.logical, now.logical)
            if overlap > 0 and was.physical - was.logical == now.physical - now.logical:
                moved -= overlap
            if was.logical + was.length > now.logical + now.length:
                break  # it reaches into the next one
            was = next(old, None)
    return moved


MOST_NUMBERS = 100_000


class FileLayouts:
    """The layouts of a set of files, counted one by one (`add`).

    The layout score is the share of a file's blocks that lie directly behind the preceding block of the file. The first
    block does not count, so a file of one block has no score. The score of a set is the share among all its blocks that
    count. It is 1 when every file is contiguous, and 0 when no two blocks of a file are neighbours. With B blocks in E
    extents it is (B - E) / (B - 1).

    Source: K. A. Smith and M. I. Seltzer, "File system aging", SIGMETRICS 1997. Agrawal et al. (Impressions, FAST 2009)
    generate images of a given layout score.
    """

    def __init__(self, block_bytes: int | None) -> None:
        self.block_bytes = block_bytes
        self._files = self._bytes = self._behind = self._counted = 0
        self._numbers_only = False
        self.devices: set[str] = set()
        self.has_score = True
        """Whether places and lengths are those of the data."""
        self._extents_per_file: Counter[int] = Counter()
        self._extents_of_size: Counter[int] = Counter()

    def add(self, extents: list[Extent], devices: Sequence[str] = ()) -> int:
        """Count one file, its extents in logical order; return how many it has. `devices`: which each lies on.

        What follows on the device is one extent, written or not: some tools join such, others do not. So is what lies
        behind a hole that is as large on the device, or takes no place there, as filefrag counts (misc/filefrag.c).
        """
        lengths: list[int] = []
        before = Extent(-1, -1, 0, False)
        on = ""
        for extent, device in zip(extents, devices or repeat("")):
            jump = extent.physical - before.physical
            follows = jump in (before.length, extent.logical - before.logical)
            if not lengths or not follows or device != on:
                lengths.append(0)
            lengths[-1] += extent.length
            before = extent
            on = device
        runs = len(lengths)
        length = sum(lengths)
        self._check(runs)
        self._extents_of_size.update(1 << length.bit_length() - 1 for length in lengths if length)
        self._files += 1
        self._bytes += length
        self._extents_per_file[runs] += 1
        self.devices.update(devices)
        if self.block_bytes and runs:
            blocks = -(-length // self.block_bytes)
            self._behind += blocks - runs
            self._counted += blocks - 1
        return runs

    def add_number(self, extents: int) -> None:
        """Count one file of which only the number of extents is known; then the summary has no bytes."""
        self._check(extents)
        self._files += 1
        self._extents_per_file[extents] += 1
        self._numbers_only = True

    def _check(self, extents: int) -> None:
        if len(self._extents_per_file) >= MOST_NUMBERS and extents not in self._extents_per_file:
            raise NotThisText(f"it has files of more than {MOST_NUMBERS:,} different numbers of extents")

    def summary(self) -> Json:
        """One entry of the key `files` of a store's summary.

        - bytes: those that have a place on the device; None where only numbers of extents are known;
        - extents_per_file: number of extents (as text) -> files;
        - extents_of_size: smallest size (a power of two, as text) -> extents of this size to below twice that;
        - mean_extent_bytes: None also where there is no extent;
        - layout_score: None also where no file has two blocks, the size of a block is not known, or files lie on
          several devices, whose places cannot be compared.
        """
        extents = sum(number * files for number, files in self._extents_per_file.items())
        has_places = not self._numbers_only
        has_score = has_places and self.has_score and len(self.devices) < 2
        return {
            "files": self._files,
            "bytes": self._bytes if has_places else None,
            "extents": extents,
            "mean_extent_bytes": self._bytes / extents if extents and has_places else None,
            "layout_score": self._behind / self._counted if self._counted and has_score else None,
            "extents_of_size": {str(size): number for size, number in sorted(self._extents_of_size.items())},
            "extents_per_file": {str(number): files for number, files in sorted(self._extents_per_file.items())},
        }
