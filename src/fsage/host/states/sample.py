"""A check of a sample of a state's files, where the kernel does not report what others do to them.

While all files are examined, some are drawn at random and kept in memory with their stat. Later each check examines
another part of these, and every directory. A directory shows files that were made, deleted, renamed or replaced. A file
that was changed in place is missed until it is in the part that is examined.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from pathlib import Path

SIZE = 256
"""Files that one check examines: some milliseconds."""
LOOKS = 64
"""Number of parts that are kept; then the first is examined again."""

Seen = tuple[int, int, int, int]
"""Of a file: inode, size, blocks, and when it was written last (ns)."""


def seen(stat: os.stat_result) -> Seen:
    """The fields of a stat that change when a file changes."""
    return stat.st_ino, stat.st_size, stat.st_blocks, stat.st_mtime_ns


class Sample:
    """A sample of all files that were added (`add`), and their directories (`freeze`)."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self.files = 0
        self._kept: list[tuple[str, Seen]] = []
        self._folders: list[tuple[str, Seen]] = []
        self._next = 0

    def add(self, path: str, state: Seen) -> None:
        """Add a file. Each is kept with the same chance (Vitter 1985, algorithm R)."""
        self.files += 1
        if len(self._kept) < SIZE * LOOKS:
            self._kept.append((path, state))
        elif (place := self._draw.randrange(self.files)) < SIZE * LOOKS:
            self._kept[place] = (path, state)

    def freeze(self, mounts: Iterable[Path]) -> None:
        """Note the directories, when all files were added."""
        self._draw.shuffle(self._kept)
        tops = [mount / "filler" for mount in mounts if (mount / "filler").is_dir()]
        folders = [*tops, *(Path(entry.path) for top in tops for entry in os.scandir(top) if entry.is_dir())]
        self._folders = [(str(folder), seen(os.stat(folder))) for folder in folders]

    @property
    def unseen_share(self) -> float:
        """The share of the files that one check leaves out: the chance to miss a file that was changed in place."""
        if self.files:
            return max(0.0, 1 - SIZE / self.files)
        return 0.0

    def differs(self) -> bool:
        """Whether a directory, or a file of the next part, changed."""
        looked = self._kept[self._next : self._next + SIZE]
        self._next = (self._next + SIZE) % max(1, len(self._kept))
        if self._next < SIZE:
            self._next = 0
        return any(_now(path) != before for path, before in (*self._folders, *looked))


def _now(path: str) -> Seen | None:
    try:
        return seen(os.stat(path, follow_symlinks=False))
    except OSError:
        return None
