"""The bytes that a step or a cell may take of a target: never more than the claim allows.

The quota of a target is the one way in which files get bytes. A target with file systems of its own is as large as its
claim. Other targets share a file system: their files are counted against the capacity of the claim, and some space
always stays free for others (fsage.host.targets.budget).
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from fsage.base import Call, Failure
from fsage.host.structure import files
from fsage.host.system import kernel
from fsage.host.targets import Target
from fsage.model import filesystems
from fsage.model.structure import BLOCK_BYTES, OWN_BYTES, SHARD, Method, folder_of

ENTRY_BYTES = 64  # of a directory, for each file
EVERYWHERE = -1  # files that lie on any store
MISSED_SHARE = 0.1  # a target that was to be filled may lack so much of what was left


class Reserved:
    """Bytes of a store that are counted already, for files that come and go. Its methods raise OSError."""

    def __init__(self, mount: Path, largest_bytes: int) -> None:
        self.mount = mount
        self.content = files.noise(largest_bytes)

    def make_folder(self, name: str) -> Path:
        """Make a directory of filler files."""
        files.make_folder(self.mount, name)
        return self.mount / "filler" / name

    def append(self, path: Path, size: int, flush: bool) -> None:
        """Let a file grow through the cache; `flush`: at once it reaches the device."""
        files.append(path, self.content[:size], flush)


class Quota:
    """The bytes of a target that are left for one step or cell. Its methods raise Failure, and OSError as `files` does.

    `making`: generations whose files do not count yet, because a step that resumes counts them itself. `known_bytes`:
    bytes that all files hold, where that is known.
    """

    def __init__(self, target: Target, making: Collection[int] = (), known_bytes: int | None = None) -> None:
        self.target = target
        self.lock = threading.Lock()
        self.limits = target.limits()
        self.filesystem = filesystems.get(target.filesystem) or filesystems.FileSystem()
        self.left_bytes = 0
        self.inspect(making, known_bytes)

    def inspect(self, making: Collection[int] = (), known_bytes: int | None = None) -> None:
        """Count the bytes that the target's files hold anew."""
        if known_bytes is None:
            known_bytes = sum(held_bytes(mount, making) for mount in self.target.mounts)
        self.left_bytes = self.target.capacity_bytes - known_bytes - self.limits.slack_bytes

    def make_room(self, generation: int, count: int = 1) -> None:
        """Make the directories for `count` files of a generation, on each store."""
        files.make_room(self.target.mounts, generation, count)

    def existing(self, generation: int, count: int) -> dict[Path, int]:
        """Sizes of those of so many files of a generation that are there already."""
        sizes: dict[Path, int] = {}
        for first in range(0, max(1, count), SHARD):
            for mount in self.target.mounts:
                for entry in os.scandir(mount / "filler" / folder_of(generation, first)):
                    sizes[Path(entry.path)] = entry.stat().st_size
        return sizes

    def remove_all(self) -> None:
        """Remove all files that are on the target, whoever made them; what a link leads to stays."""
        for mount in self.target.mounts:
            files.remove_all(mount)
        self.inspect()

    def must_hold(self, size: int, what: str | Path) -> None:
        """Raise Failure if fewer than `size` bytes are left."""
        if size > self.left_bytes:
            raise Failure(
                f"{what}: {size} bytes are wanted, and {max(0, self.left_bytes)} are left of the "
                f"{self.target.capacity_bytes} that the claim of target {self.target.name} allows; request less, or "
                "claim a larger target"
            )
        free = self.limits.left()
        if free is not None and size > free:
            raise Failure(
                f"{what}: {size} bytes are wanted, and {self.target.mounts[0]} has {max(0, free)} left, without the "
                f"share that stays free for others; free some, or claim target {self.target.name} elsewhere"
            )

    def fallocate(self, path: Path, size: int, spread: int = 0) -> None:
        """Give a file its blocks without writing them."""
        self.filesystem.refuse_reserving(path)
        with self._taken(size, path, spread):
            files.fallocate(path, size, self.target.pace.spend)

    def write(self, path: Path, size: int, spread: int = 0) -> None:
        """Write a file past the cache; what it held is cut off first. `spread`: its stripes, if not as declared."""
        with self._taken(size, path, spread):
            files.write(path, size, self.target.pace.spend)

    def in_turns(
        self,
        paths: Sequence[Path],
        sizes: Sequence[int],
        request_bytes: int,
        method: Method,
        check_lease: Call,
    ) -> None:
        """Make several files that grow at the same time (files.in_turns)."""
        if method == "fallocate" and paths:
            self.filesystem.refuse_reserving(paths[0])
        with self._taken_all(paths, sizes):
            files.in_turns(paths, sizes, request_bytes, method, check_lease, self.target.pace.spend)

    def extend(self, descriptor: int, path: Path, offset: int, size: int) -> None:
        """Extend an open file: give it blocks for `size` bytes from `offset` on."""
        self.filesystem.refuse_reserving(path)
        with self._taken(size, path):
            os.posix_fallocate(descriptor, offset, size)

    def keep(self, descriptor: int, path: Path, size: int) -> None:
        """Reserve blocks for an open file beyond its end; its size stays."""
        self.filesystem.refuse_reserving(path)
        with self._taken(size, path):
            kernel.allocate(descriptor, kernel.KEEP_SIZE, 0, size)

    def copy(self, source: Path, path: Path, whole: bool) -> None:
        """Copy a file; `whole`: its blocks are allocated before, contiguous, and the same each time."""
        size = source.stat().st_size
        with self._taken(size, path, 1):
            if whole:
                files.fallocate(path, size)
            with open(source, "rb") as given, open(path, "r+b" if whole else "wb") as out:
                shutil.copyfileobj(given, out, files.WRITE_BYTES)
                out.flush()
                os.fsync(out.fileno())

    @contextlib.contextmanager
    def reserve(self, size: int, mount: Path, largest_bytes: int) -> Iterator[Reserved]:
        """Reserve bytes of a store for files that grow and are deleted while the block runs, by so much at most."""
        with self._taken(size, mount, EVERYWHERE):
            yield Reserved(mount, largest_bytes)

    def fill(self, descriptor: int, size: int) -> None:
        """Write random bytes over an open file that has its blocks, from its beginning."""
        files.fill(descriptor, size)

    def punch(self, descriptor: int, offset: int, size: int) -> None:
        """Free the blocks of a part of an open file; its size stays. Raises OSError."""
        kernel.allocate(descriptor, kernel.KEEP_SIZE | kernel.PUNCH_HOLE, offset, size)

    def note(self, path: Path, content: bytes) -> None:
        """Write a small file."""
        with self._taken(len(content), path, 1):
            path.write_bytes(content)

    def rest(self, path: Path) -> int:
        """Give all that is left to one file; how many bytes it got.

        Where all at once is refused, half is tried, again and again. Raises Failure where the file gets much less than
        was left.
        """
        self.filesystem.refuse_reserving(path)
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
                    os.ftruncate(descriptor, size)  # some keep the blocks that they gave before they failed
                    self.limits.freed()
                    ask = ask // 2 // BLOCK_BYTES * BLOCK_BYTES
                if ask:
                    ask = min(ask, self._all_of(path))
        finally:
            os.close(descriptor)
        if goal - size > max(OWN_BYTES, MISSED_SHARE * goal):
            raise Failure(
                f"filling what is left of target {self.target.name}: {path} got {size} of {goal} bytes, then there was "
                "no space. The target is not full, so it is not in the requested state"
            )
        return size

    def _taken(self, size: int, path: Path, spread: int = 0) -> AbstractContextManager[None]:
        """Count bytes for a file, which has them when the block ends. Raises Failure."""
        return self._taken_all([path], [size], spread)

    @contextlib.contextmanager
    def _taken_all(self, paths: Sequence[Path], sizes: Sequence[int], spread: int = 0) -> Iterator[None]:
        """Count bytes for several files, which have them when the block ends. Raises Failure."""
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
        """Bytes that a file can be given at once, in whole blocks."""
        return max(0, self.limits.most(path, self.left_bytes)) // BLOCK_BYTES * BLOCK_BYTES


def held_bytes(mount: Path, without: Collection[int]) -> int:
    """Bytes of the blocks of all that fsage has on one store, `without` some generations of its files."""
    left_out = {f"g{generation}" for generation in without}
    return sum(_held(mount / tree, left_out) for tree in ("filler", "measured"))


def _held(tree: Path, left_out: Collection[str]) -> int:
    allocated_bytes = 0
    for entry in _entries(tree):
        if entry.name.partition(".")[0] in left_out and entry.is_dir(follow_symlinks=False):
            continue
        allocated_bytes += entry.stat(follow_symlinks=False).st_blocks * 512
        if entry.is_dir(follow_symlinks=False):
            allocated_bytes += _held(Path(entry.path), ())
    return allocated_bytes


def _entries(tree: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(tree) as entries:
            yield from entries
    except FileNotFoundError:
        return
