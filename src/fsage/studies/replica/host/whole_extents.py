"""A free-space layout where only whole extents are freed (btrfs): each extent gets exactly its wanted length.

Two files take all free space in the allocator's order. One gets what is to be in use. The other gets what is to be
free, and is deleted at the end. Within a chunk the allocator takes the largest free extent; of equal ones it takes the
least recently used (fs/btrfs/free-space-cache.c). The place of each piece is read back. Pieces have at most 128 KiB,
because longer ones get chunks of their own (size classes, since Linux 6.2; fs/btrfs/block-group.c).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

from fsage.api.host import Quota, Target, filesystems, kernel
from fsage.api.model import BLOCK_BYTES, Failure, path_of
from fsage.layouts import extents, fiemap
from fsage.layouts.extents import Extents

from . import free_space_layout

FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
PIECE_BYTES = 128 << 10
CHECK_EVERY = 4096
LOOKS_AGAIN = 64
"""How often at most all free space is read anew."""
KEPT = 0
FREED = 1
"""Which file."""


class WholeExtents:
    """The two files of one replica."""

    def __init__(self, target: Target, generation: int, check_lease: Callable[[], None], wanted: Extents) -> None:
        """`wanted`: the free extents."""
        self.target = target
        self.generation = generation
        self.check_lease = check_lease
        self.wanted = wanted
        self.quota = Quota(target)
        self.sizes = [0, 0]
        self.descriptors = list[int]()
        self.ranges: list[tuple[int, int, int]] = []  # as FileSystem.data_ranges has them
        self.free = free_space_layout.read(target)[1]
        self.known: dict[int, Extents] = {}  # what is left of chunks that were begun, by their places
        self.left: Extents = []  # of the one where the last piece lies
        self.looks_again = LOOKS_AGAIN

    def lay(self) -> int:
        """Lay it out; the number of files. Raises OSError, Failure."""
        with filesystems.one_cpu(), contextlib.ExitStack() as opened:
            self.descriptors = [opened.enter_context(kernel.opened(self._path(file), FRESH)) for file in (KEPT, FREED)]
            for number in itertools.count():
                if number % CHECK_EVERY == 0:
                    self.check_lease()
                file, size = self._next()
                while size and not self._take(file, size):
                    size = size // 2 // BLOCK_BYTES * BLOCK_BYTES
                if size:
                    self._look(file, size)
                elif self.left:
                    self.left.clear()
                else:
                    break
        self._path(FREED).unlink()
        self.target.remount()
        return 1

    def _path(self, file: int) -> Path:
        return path_of(self.target.mounts, self.generation, file)

    def _take(self, file: int, size: int) -> bool:
        """Make a file so much longer; False: there is not so much left."""
        before = self.sizes[file]
        try:
            self.quota.extend(self.descriptors[file], self._path(file), before, size)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            os.ftruncate(self.descriptors[file], before)
            return False
        self.sizes[file] += size
        return True

    def _next(self) -> tuple[int, int]:
        """Which file is to get the next piece, and its bytes."""
        if not self.left:
            return KEPT, BLOCK_BYTES  # it shows where the allocator goes on
        start, end = max(self.left, key=lambda extent: extent[1] - extent[0])
        stop, free = next(in_turns(start, end, self.wanted))
        # A run that was requested by its length alone may begin within a block.
        size = -(-(stop - start) // BLOCK_BYTES) * BLOCK_BYTES
        return FREED if free else KEPT, min(size, PIECE_BYTES)

    def _look(self, file: int, size: int) -> None:
        """Take the last piece of a file out of what is left of its chunk. Raises Failure."""
        start = self._place(fiemap.address_of(self.descriptors[file], self.sizes[file] - size))
        for number, (begin, end) in enumerate(self.left):
            if begin <= start < end:
                del self.left[number]
                self.left += [extent for extent in ((begin, start), (start + size, end)) if extent[0] < extent[1]]
                return
        if self.looks_again:  # more is free there than was
            self.looks_again -= 1
            self.free = free_space_layout.read(self.target)[1]
            self.known.clear()
            self.left = []

    def _place(self, address: int) -> int:
        """Where on the device an address is; `left` is then of its chunk."""
        for _ in range(2):
            for begin, place, length in self.ranges:
                if begin <= address < begin + length:
                    if place not in self.known:
                        self.known[place] = extents.common(self.free, [(place, place + length)])
                    self.left = self.known[place]
                    return place + address - begin
            self.ranges = filesystems.named(self.target.filesystem or "").data_ranges(self.target.mounts[0])
        raise Failure(f"target {self.target.name}: a file lies at {address}, where no chunk of data is")


def in_turns(start: int, end: int, free: Extents) -> Iterator[tuple[int, bool]]:
    """The range from `start` to `end` as runs: where each ends, and whether it is to be free."""
    at = max(0, bisect_right(free, (start, start)) - 1)
    while start < end:
        while at < len(free) and free[at][1] <= start:
            at += 1
        begin, stop = free[at] if at < len(free) else (end, end)
        is_free = begin <= start
        start = min(end, stop if is_free else begin)
        yield start, is_free
