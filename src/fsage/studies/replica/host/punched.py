"""A free-space layout where a punched hole frees its blocks: files fill the target, then free space is punched out.

A file system reserves some blocks for itself (ext4: its reserved clusters; XFS: space for the trees of each allocation
group). No file gets them, so they would stay free wherever the allocator left them. Several rounds solve that: some of
the wanted space is freed, and all is filled again, until the reserved blocks lie where free space is wanted. Holes are
punched in ascending order: then a file's map of extents fills its blocks, about 340 extents each on ext4.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fsage.host.stores import fiemap, filesystems
from fsage.host.structure import files
from fsage.host.structure.files import Quota
from fsage.host.targets.target import Target
from fsage.model.evidence import extents
from fsage.model.evidence.extents import Extents
from fsage.model.evidence.fragmentation import Extent
from fsage.model.structure import path_of
from fsage.studies.replica.host import free_space_layout

PARTS = 16
ROUNDS = ((1 << 16, 2), (1 << 14, 4), (1, 8), (1, 64))
"""Of each round: the smallest extent that is freed, and how many times the wrongly free bytes are freed."""
ENOUGH = 0.0002
"""The rounds end where less than this share of the free bytes is in the wrong place."""
CHECK_EVERY = 256


class Punched:
    """The files of one replica, and the holes that are punched into them."""

    held_by = "files"

    def __init__(
        self, target: Target, generation: int, check_lease: Callable[[], None], copied: Extents, joined: Extents | None
    ) -> None:
        """`copied`: the wanted free extents; with `joined` as many bytes in one run within these extents."""
        self.target = target
        self.generation = generation
        self.check_lease = check_lease
        self.total = None if joined is None else extents.size(copied)
        self.centre = extents.centre(copied)
        self.wanted = copied if joined is None else joined
        self.quota = Quota(target)
        self.made = 0

    def lay(self) -> int:
        """Lay it out; the number of files. Raises OSError, Failure."""
        self.target.remount()  # ext4 reserves blocks for small files, and only a remount releases them
        with filesystems.one_cpu():
            self._fill()
            if self.total is not None:
                self._join(self.total)
            for smallest, times in ROUNDS:
                left = free_space_layout.read(self.target)[1]
                wrong = extents.without(left, self.wanted)
                if extents.size(wrong) <= ENOUGH * extents.size(self.wanted):
                    break
                self._punch(_smallest(self.wanted, smallest, times, left, wrong))
                self._fill()
            self._punch(self.wanted)
        self.target.remount()
        return self.made

    def _join(self, total: int) -> None:
        """Want `total` bytes in one run, less the reserved blocks, which stay where they are."""
        left = free_space_layout.read(self.target)[1]
        room = extents.without(self.wanted, left)
        run = extents.joined(room, max(0, total - extents.size(left)), self.centre)
        self.wanted = sorted([*left, *run])

    def _fill(self) -> None:
        """Give all free space to one more file."""
        self.check_lease()
        self.quota.rest(path_of(self.target.mounts, self.generation, self.made))
        self.made += 1

    def _punch(self, free: Extents) -> None:
        """Free these bytes of the device, in ascending order within each file."""
        for index in range(self.made):
            path = path_of(self.target.mounts, self.generation, index)
            pieces = sorted(fiemap.extents(path), key=lambda piece: piece.physical)
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
            try:
                for number, (offset, length) in enumerate(sorted(within(pieces, free))):
                    if number % CHECK_EVERY == 0:
                        self.check_lease()
                    files.allocate(descriptor, files.KEEP_SIZE | files.PUNCH_HOLE, offset, length)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        free_space_layout.flush(self.target)


def within(pieces: list[Extent], free: Extents) -> list[tuple[int, int]]:
    """Offset and length, within a file, of those parts of its extents that lie in `free` on the device."""
    ranges = []
    at = 0
    for piece in pieces:
        begin = piece.physical
        stop = piece.physical + piece.length
        while at < len(free) and free[at][1] <= begin:
            at += 1
        here = at
        while here < len(free) and free[here][0] < stop:
            start = max(free[here][0], begin)
            end = min(free[here][1], stop)
            ranges.append((piece.logical + start - begin, end - start))
            here += 1
    return ranges


def _smallest(free: Extents, least: int, times: int, left: Extents, wrong: Extents) -> Extents:
    """The smallest wanted extents of at least `least` bytes, in each of PARTS parts of the device.

    Their bytes are `times` those that are left free in the part. An allocator prefers large extents, so what it leaves
    free in the next round is among these.
    """
    span = free[-1][1] // PARTS + 1
    parts: list[Extents] = [[] for _ in range(PARTS)]
    wanted = [times * extents.size(left) // PARTS] * PARTS
    for start, end in wrong:
        wanted[min(start // span, PARTS - 1)] += times * (end - start)
    for extent in free:
        if extent[1] - extent[0] >= least:
            parts[extent[0] // span].append(extent)
    chosen: Extents = []
    for part, need in zip(parts, wanted):
        for extent in sorted(part, key=lambda extent: extent[1] - extent[0]):
            if need <= 0:
                break
            chosen.append(extent)
            need -= extent[1] - extent[0]
    return sorted(chosen)
