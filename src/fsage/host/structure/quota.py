"""The one place that gives files their bytes: never more of a target than its claim allows, whoever asks.

A target with a file system of its own ends where its claim does. Others lie on a file system that is other people's
too: there a target's files are counted against its capacity, and something stays free for others, whatever the claim
would still allow (fsage.host.targets.limits).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from fsage.host.structure import files
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.filler import BLOCK_BYTES, OWN_BYTES, Method

ENTRY_BYTES = 64  # of a directory, for each file
EVERYWHERE = -1  # files that lie on any store
MISSED_SHARE = 0.1  # of what was left: more that is not had is no state that was asked for


class Quota:
    """What of a target is left, as one step or cell of it uses it up. Its methods raise Failure, and OSError as files'.

    `making`: generations whose files do not count yet, for a step that goes on where it was left counts them itself.
    `held`: what all files hold, where that is known.
    """

    def __init__(self, target: Target, making: Collection[int] = (), held: int | None = None) -> None:
        self.target, self.lock = target, threading.Lock()
        self.limits = target.limits()
        self.left_bytes = 0
        self.inspect(making, held)

    def inspect(self, making: Collection[int] = (), held: int | None = None) -> None:
        """Count anew what the target's files hold."""
        if held is None:
            held = sum(held_bytes(mount, making) for mount in self.target.mounts)
        self.left_bytes = self.target.capacity_bytes - held - self.limits.slack_bytes

    def must_hold(self, size: int, what: str | Path) -> None:
        """`Failure` if `size` bytes more are more than is left."""
        if size > self.left_bytes:
            raise Failure(
                f"{what}: {size} bytes are wanted, and of the {self.target.capacity_bytes} that the claim of target "
                f"{self.target.name} allows {max(0, self.left_bytes)} are left; less can be asked for, or a larger "
                "target be claimed"
            )
        if (free := self.limits.left()) is not None and size > free:
            raise Failure(
                f"{what}: {size} bytes are wanted, and {self.target.mounts[0]} has {max(0, free)} left beside what "
                f"stays free for others; free some, or claim target {self.target.name} elsewhere"
            )

    def fallocate(self, path: Path, size: int, spread: int = 0) -> None:
        """Give a file its blocks without writing them."""
        with self._taken(size, path, spread):
            files.fallocate(path, size)

    def write(self, path: Path, size: int, spread: int = 0) -> None:
        """Write a file past the cache; what it held is cut off first. `spread`: its stripes, if not as declared."""
        with self._taken(size, path, spread):
            files.write(path, size)

    def in_turns(
        self,
        paths: Sequence[Path],
        sizes: Sequence[int],
        request_bytes: int,
        method: Method,
        check_lease: Callable[[], None],
    ) -> None:
        """Make files that grow at once, as files.in_turns does."""
        with self._taken_all(paths, sizes):
            files.in_turns(paths, sizes, request_bytes, method, check_lease)

    def extend(self, descriptor: int, path: Path, offset: int, size: int) -> None:
        """Give a file that is open so many blocks more."""
        with self._taken(size, path):
            os.posix_fallocate(descriptor, offset, size)

    def keep(self, descriptor: int, path: Path, size: int) -> None:
        """Keep blocks for a file that is open; its size stays."""
        with self._taken(size, path):
            files.allocate(descriptor, files.KEEP_SIZE, 0, size)

    def copy(self, source: Path, path: Path, whole: bool) -> None:
        """Copy a file; `whole`: it has its blocks before, in one piece, the same each time."""
        size = source.stat().st_size
        with self._taken(size, path, 1):
            if whole:
                files.fallocate(path, size)
            with open(source, "rb") as given, open(path, "r+b" if whole else "wb") as out:
                shutil.copyfileobj(given, out, files.WRITE_BYTES)
                _write_out(out)

    @contextlib.contextmanager
    def reserve(self, size: int, folder: Path) -> Iterator[None]:
        """So many bytes for files below a folder that come and go inside the block, never more of them at a time."""
        with self._taken(size, folder, EVERYWHERE):
            yield

    def note(self, path: Path, content: bytes) -> None:
        """Write a small file."""
        with self._taken(len(content), path, 1):
            path.write_bytes(content)

    def rest(self, path: Path) -> int:
        """Give what is left to one file: all of it, or half again and again, until nothing more is had; how much it is.

        `Failure` where much of what was left is not had.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            size = 0
            goal = ask = self._all_of(path)
            while ask >= BLOCK_BYTES:
                try:
                    os.posix_fallocate(descriptor, size, ask)
                    size += ask
                    self.left_bytes -= ask
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise Failure(
                            f"filling what is left of target {self.target.name} by {path}: {error.strerror}"
                        ) from error
                    os.ftruncate(descriptor, size)  # some file systems keep what they had given before they failed
                    self.limits.freed()
                    ask = ask // 2 // BLOCK_BYTES * BLOCK_BYTES
                if ask:
                    ask = min(ask, self._all_of(path))
        finally:
            os.close(descriptor)
        if goal - size > max(OWN_BYTES, MISSED_SHARE * goal):
            raise Failure(
                f"filling what is left of target {self.target.name} by {path}: {size} of {goal} bytes were had, then "
                "there was no space; the target is not full, so it is not in the state that was asked for"
            )
        return size

    def _taken(self, size: int, path: Path, spread: int = 0) -> AbstractContextManager[None]:
        """So many bytes for a file, which has them when the block ends. Raises Failure."""
        return self._taken_all([path], [size], spread)

    @contextlib.contextmanager
    def _taken_all(self, paths: Sequence[Path], sizes: Sequence[int], spread: int = 0) -> Iterator[None]:
        """The same for several."""
        taken: list[Path] = []
        try:
            with self.lock:
                for path, size in zip(paths, sizes):
                    self.must_hold(size, path)
                    self.limits.take(size, path, spread)
                    taken.append(path)
                    self.left_bytes -= -(-size // BLOCK_BYTES) * BLOCK_BYTES + ENTRY_BYTES
            yield
        finally:
            with self.lock:
                for path in taken:
                    self.limits.allocated(path)

    def _all_of(self, path: Path) -> int:
        """What a file can be given at once."""
        return max(0, self.limits.most(path, self.left_bytes)) // BLOCK_BYTES * BLOCK_BYTES


def held_bytes(mount: Path, without: Collection[int] = ()) -> int:
    """Bytes of the blocks of all that fsage has on one store, `without` some generations of its files."""
    left_out = {f"g{generation}" for generation in without}
    return sum(_held(mount / tree, left_out) for tree in ("filler", "measured"))


def _held(tree: Path, left_out: Collection[str]) -> int:
    held = 0
    for entry in _entries(tree):
        if entry.name.partition(".")[0] in left_out and entry.is_dir(follow_symlinks=False):
            continue
        held += entry.stat(follow_symlinks=False).st_blocks * 512
        if entry.is_dir(follow_symlinks=False):
            held += _held(Path(entry.path), ())
    return held


def _entries(tree: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(tree) as entries:
            yield from entries
    except FileNotFoundError:
        return


def _write_out(out: IO[bytes]) -> None:
    out.flush()
    os.fsync(out.fileno())
