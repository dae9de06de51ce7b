"""One phase: `python -m fsage.studies.limits.host TASK.json` prints what could be had, look by look, as JSON.

Between two looks a file grows, so each look finds less free. What a look gets it gives back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fsage.api.host import caches, kernel
from fsage.api.model import BLOCK_BYTES, Json, in_words, tools
from fsage.layouts.fiemap import count_extents

from .model import DIRECTORY, INODE, PIECES, TREE, Assignment

FRESH = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
INODES = 320
"""More than the free inodes of chunks that four allocation groups of an XFS have begun."""
NAMES = 40
NAME = "n" * 240
"""Names of more than two blocks."""
STILL_S = 0.05
LOOK_S = 0.002
EXTENTS = 64
"""More than an inode of ext4 (4) or XFS (19 of 512 bytes) holds itself."""


def inode(folder: Path) -> None:
    """A file by its name, then many without one, which need inodes and no directory."""
    with contextlib.ExitStack() as opened:
        path = folder / "new"
        opened.enter_context(kernel.opened(path, FRESH))
        opened.callback(path.unlink)
        for _ in range(INODES):
            opened.enter_context(kernel.opened(folder, os.O_TMPFILE | os.O_RDWR))


def directory(folder: Path, number: int) -> None:
    """Long names of one file, in a folder that is there and was never used."""
    with contextlib.ExitStack() as made:
        for name in range(NAMES):
            path = folder / f"names{number}" / f"{name:03d}{NAME}"
            os.link(folder / "linked", path)
            made.callback(path.unlink)


def tree(folder: Path) -> None:
    """Blocks of a file that is there, with holes between them."""
    with open(folder / "linked", "r+b") as file:
        try:
            for number in range(1, EXTENTS):
                kernel.allocate(file.fileno(), 0, 2 * number * BLOCK_BYTES, BLOCK_BYTES)
        finally:
            file.truncate(BLOCK_BYTES)


def piece(folder: Path, size: int) -> int:
    """A file of this size; in how many pieces it lies."""
    path = folder / "piece"
    with kernel.opened(path, FRESH) as descriptor:
        try:
            kernel.allocate(descriptor, 0, 0, size)
            return count_extents(path)
        finally:
            path.unlink()


def look(folder: Path, number: int) -> Json:
    """What can be had now, each on its own: pieces that it lies in, or the error's name."""
    calls: dict[str, Callable[[Path], int | None]] = {
        INODE: inode,
        TREE: tree,
        DIRECTORY: partial(directory, number=number),
    }
    calls |= {name: partial(piece, size=size) for name, size in PIECES.items()}
    status = os.statvfs(folder)
    seen: Json = {
        "free_bytes": status.f_bavail * status.f_frsize,
        "full_percent": 100 * (1 - status.f_bavail / status.f_blocks),
        "had": {},
    }
    for name, call in calls.items():
        try:
            seen["had"][name] = call(folder) or 1
        except OSError as error:
            seen["had"][name] = errno.errorcode.get(error.errno or 0, in_words(error))
        _given_back(folder, status.f_bfree)
    return seen


def _given_back(folder: Path, wanted: int) -> None:
    """Wait until so many blocks are free again, or no more come: XFS frees what was unlinked in the background."""
    free = -1
    changed = time.monotonic()
    while free < wanted and time.monotonic() < changed + STILL_S:
        caches.flush(folder)
        now = os.statvfs(folder).f_bfree
        if now != free:
            free = now
            changed = time.monotonic()
        time.sleep(LOOK_S)


def looks(assignment: Assignment) -> list[Json]:
    """Look after look, until nothing more can be used up. Raises OSError where nothing can be prepared."""
    seen = []
    folder = Path(assignment.folder)
    for number in range(assignment.looks):
        (folder / f"names{number}").mkdir()
    with kernel.opened(folder / "linked", FRESH) as descriptor:
        kernel.allocate(descriptor, 0, 0, BLOCK_BYTES)
    step_bytes = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize // (assignment.looks - 1)
    used = 0
    with kernel.opened(folder / "filler", FRESH) as filler:
        for number in range(assignment.looks):
            seen.append(look(folder, number))
            wanted = used + max(step_bytes, BLOCK_BYTES)
            size = assignment.request_bytes
            while used < wanted and size >= BLOCK_BYTES:
                try:
                    kernel.allocate(filler, 0, used, size)
                    used += size
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2
    return seen


if __name__ == "__main__":
    sys.exit(tools.program_main(Assignment, looks, sys.argv[1]))
