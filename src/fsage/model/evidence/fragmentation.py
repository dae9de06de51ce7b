"""In how many pieces files lie, and which bytes of a file lie elsewhere afterwards; from FIEMAP."""

from __future__ import annotations

from typing import NamedTuple


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
        return self.excess / self.extents if self.extents else 0.0

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
        logical_end, physical_end = extent.logical + extent.length, extent.physical + extent.length
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
