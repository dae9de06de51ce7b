"""How files of a state get their directories, their blocks and their bytes: never more than the claim allows.

The quota of a target is the one way in which files get bytes. A target with file systems of its own is as large as its
claim. Other targets share a file system: their files are counted against the capacity of the claim, and some space
always stays free for others (fsage.host.targets.budget).

Cache-eviction files are part of a state: large files that are not measured, read between two phases so that they fill
the caches. Together they are as large as a share of the capacity, or as a client's memory. On Lustre each is striped
over all OSTs.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from ctypes import c_int64
from pathlib import Path
from typing import IO

from fsage.host.system import caches, libc, places
from fsage.host.system.space import memory_bytes
from fsage.host.targets.target import Target
from fsage.model import MIB, filesystems, striping
from fsage.model.errors import Failure
from fsage.model.striping import EVICTION_FILES
from fsage.model.structure import BLOCK_BYTES, OWN_BYTES, SHARD, Method, folder_of, path_of

KEEP_SIZE = 1
PUNCH_HOLE = 2  # fallocate(2)
WRITE_BYTES = 1 << 20
FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


def make_room(mounts: list[Path], generation: int, count: int = 1) -> None:
    """Make the directories for `count` files of a generation, on each store. No symbolic link is followed."""
    for mount in mounts:
        for first in range(0, max(1, count), SHARD):
            make_folder(mount, folder_of(generation, first))


def make_folder(mount: Path, name: str) -> None:
    """Make one directory of filler files. No symbolic link is followed."""
    path = mount / "filler" / name
    with places.opened(mount) as store, places.inside(store, "filler", path.parent, places.PRIVATE) as filler:
        places.make_in(filler, path)


def remove_folders(mount: Path) -> None:
    """Remove all filler files of a store, with their directories."""
    path = mount / "filler"
    with places.opened(mount) as store, places.inside(store, path.name, path, places.PRIVATE) as filler:
        places.empty(filler, path)


OURS = (".fsage", "filler", "measured", "lost+found")
"""The entries in a store's root that fsage or mkfs makes."""


def remove_others(mount: Path) -> None:
    """Remove all other entries of a restored file system; what a link leads to stays. Raises Failure."""
    with places.opened(mount) as store:
        for name in sorted(set(os.listdir(store)) - set(OURS)):
            places.remove_in(store, mount / name)


def append(path: Path, content: memoryview, flush: bool) -> None:
    """Append to a file through the cache; `flush`: it reaches the device at once. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    try:
        done = 0
        while done < len(content):
            done += os.write(descriptor, content[done:])
        if flush:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def allocate(descriptor: int, mode: int, offset: int, size: int) -> None:
    """fallocate(2) with a mode, which Python's os module lacks. Raises OSError."""
    if libc.library.fallocate(descriptor, mode, c_int64(offset), c_int64(size)):
        raise libc.error()


def in_turns(
    paths: Sequence[Path],
    sizes: Sequence[int],
    request_bytes: int,
    method: Method,
    check_lease: Callable[[], None] = lambda: None,
    spend: Callable[[int], None] = lambda size: None,
) -> None:
    """Make files that grow at the same time: each gets one request, then each the next, until all have their sizes.

    One thread makes them in a fixed order, so they get the same blocks each time. `method`: `fallocate` gives blocks
    without writing them, `write` writes past the cache (whole 4 KiB), `buffered` writes through the cache and flushes
    each file at its end. Files that exist are made anew. `spend` is called after each request, with the bytes that it
    wrote. Raises OSError that names the file.
    """
    flags = FRESH | (os.O_DIRECT if method == "write" else 0)
    growing: list[tuple[Path, int, int]] = []
    at = Path()  # no more lines than needed: they run for each of a hundred thousand small files
    with noise(request_bytes) if method != "fallocate" else contextlib.nullcontext(memoryview(b"")) as content:
        try:
            for at, size in zip(paths, sizes):
                growing.append((at, size, os.open(at, flags, 0o600)))
            for offset in range(0, max(sizes, default=0), request_bytes):
                check_lease()
                for path, size, descriptor in growing:
                    at = path
                    part = min(request_bytes, size - offset)
                    if part > 0 and method == "fallocate":
                        os.posix_fallocate(descriptor, offset, part)
                    elif part > 0:
                        write_whole(descriptor, content[:part], offset)
                    spend(0 if method == "fallocate" else max(0, part))
            for path, _, descriptor in growing if method == "buffered" else ():
                at = path
                os.fsync(descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(at)) from error
        finally:
            for *_, descriptor in reversed(growing):
                os.close(descriptor)


def fallocate(path: Path, size: int, spend: Callable[[int], None] = lambda size: None) -> None:
    """Allocate a file's blocks in one request, without writing them."""
    in_turns([path], [size], size, "fallocate", spend=spend)


def write(path: Path, size: int, spend: Callable[[int], None] = lambda size: None) -> None:
    """Write a file past the cache, in requests of WRITE_BYTES; a file that exists is truncated first."""
    in_turns([path], [size], WRITE_BYTES, "write", spend=spend)


def fill(fd: int, size: int) -> None:
    """Write `size` random bytes over an open file, from its beginning."""
    with noise(WRITE_BYTES) as content:
        for offset in range(0, size, WRITE_BYTES):
            write_whole(fd, content[: size - offset], offset)


page_of_content: Callable[[int], bytes] = os.urandom
"""What files hold: random bytes, which no device leaves out. In a guest they are zeros, so that images have holes."""


@contextlib.contextmanager
def noise(size: int) -> Iterator[memoryview]:
    """What files are filled with, in whole pages, as O_DIRECT asks."""
    buffer = mmap.mmap(-1, size)
    buffer.write((page_of_content(4096) * -(-size // 4096))[:size])
    # Not closed: the traceback of a failed write still refers to the buffer, and close() would raise another error.
    yield memoryview(buffer)


def write_whole(fd: int, content: memoryview, offset: int) -> None:
    """pwrite(2) until all is written. Raises OSError."""
    done = 0
    while done < len(content):
        done += os.pwrite(fd, content[done:], offset + done)


MEMORY = "memory"
GENERATION = 1


def eviction_paths(mounts: list[Path]) -> list[Path]:
    """The cache-eviction files of a target."""
    return [path for index in range(EVICTION_FILES) if (path := path_of(mounts, GENERATION, index)).exists()]


def make_eviction_files(target: Target, size: float | str, check_lease: Callable[[], None]) -> int:
    """Write the cache-eviction files; how many bytes they have together.

    `size`: percent of the capacity, or `memory`: as much as this host has. Raises Failure where they do not fit.
    """
    if size == MEMORY:
        whole = memory_bytes()
    else:
        whole = int(target.capacity_bytes * float(size) / 100)
    each = max(1, whole // EVICTION_FILES // MIB) * MIB
    quota = Quota(target)
    quota.must_hold(EVICTION_FILES * each, "the cache-eviction file (eviction_file can be less)")
    make_room(target.mounts, GENERATION)
    target.osts.spread(path_of(target.mounts, GENERATION, 0).parent)
    for index in range(EVICTION_FILES):
        check_lease()
        path = path_of(target.mounts, GENERATION, index)
        try:
            quota.write(path, each, striping.ALL)
        except OSError as error:
            raise Failure(
                f"writing {path}, {each} bytes of the cache-eviction file ({EVICTION_FILES * each} bytes in "
                f"{EVICTION_FILES} parts): {error.strerror}; eviction_file can be less"
            ) from error
    return EVICTION_FILES * each


def read_eviction_files(target: Target) -> None:
    """Read the cache-eviction files. Raises Failure if there are none.

    No measured file is touched, so that nothing of these comes into memory.
    """
    paths = eviction_paths(target.mounts)
    if not paths:
        raise Failure(f"the state has no cache-eviction file below {target.mounts[0]}/filler to be read")
    caches.bring_in(paths)


ENTRY_BYTES = 64  # of a directory, for each file
EVERYWHERE = -1  # files that lie on any store
MISSED_SHARE = 0.1  # a target that was to be filled may lack so much of what was left


class Quota:
    """The bytes of a target that are left for one step or cell. Its methods raise Failure, and OSError as `files` does.

    `making`: generations whose files do not count yet, because a step that resumes counts them itself. `held`: bytes
    that all files hold, where that is known.
    """

    def __init__(self, target: Target, making: Collection[int] = (), known_bytes: int | None = None) -> None:
        self.target = target
        self.lock = threading.Lock()
        self.limits = target.limits()
        self.left_bytes = 0
        self.inspect(making, known_bytes)

    def inspect(self, making: Collection[int] = (), known_bytes: int | None = None) -> None:
        """Count the bytes that the target's files hold anew."""
        if known_bytes is None:
            known_bytes = sum(held_bytes(mount, making) for mount in self.target.mounts)
        self.left_bytes = self.target.capacity_bytes - known_bytes - self.limits.slack_bytes

    def make_room(self, generation: int, count: int = 1) -> None:
        """Make the directories for `count` files of a generation, on each store."""
        make_room(self.target.mounts, generation, count)

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
        self._refuse_reserving(path)
        with self._taken(size, path, spread):
            fallocate(path, size, self.target.pace.spend)

    def write(self, path: Path, size: int, spread: int = 0) -> None:
        """Write a file past the cache; what it held is cut off first. `spread`: its stripes, if not as declared."""
        with self._taken(size, path, spread):
            write(path, size, self.target.pace.spend)

    def in_turns(
        self,
        paths: Sequence[Path],
        sizes: Sequence[int],
        request_bytes: int,
        method: Method,
        check_lease: Callable[[], None],
    ) -> None:
        """Make several files that grow at the same time (files.in_turns)."""
        if method == "fallocate":
            self._refuse_reserving(*paths[:1])
        with self._taken_all(paths, sizes):
            in_turns(paths, sizes, request_bytes, method, check_lease, self.target.pace.spend)

    def extend(self, descriptor: int, path: Path, offset: int, size: int) -> None:
        """Extend an open file: give it blocks for `size` bytes from `offset` on."""
        self._refuse_reserving(path)
        with self._taken(size, path):
            os.posix_fallocate(descriptor, offset, size)

    def keep(self, descriptor: int, path: Path, size: int) -> None:
        """Reserve blocks for an open file beyond its end; its size stays."""
        self._refuse_reserving(path)
        with self._taken(size, path):
            allocate(descriptor, KEEP_SIZE, 0, size)

    def copy(self, source: Path, path: Path, whole: bool) -> None:
        """Copy a file; `whole`: its blocks are allocated before, contiguous, and the same each time."""
        size = source.stat().st_size
        with self._taken(size, path, 1):
            if whole:
                fallocate(path, size)
            with open(source, "rb") as given, open(path, "r+b" if whole else "wb") as out:
                shutil.copyfileobj(given, out, WRITE_BYTES)
                _write_out(out)

    @contextlib.contextmanager
    def reserve(self, size: int, folder: Path) -> Iterator[None]:
        """Reserve bytes for files below a folder that are made and deleted while the block runs."""
        with self._taken(size, folder, EVERYWHERE):
            yield

    def note(self, path: Path, content: bytes) -> None:
        """Write a small file."""
        with self._taken(len(content), path, 1):
            path.write_bytes(content)

    def rest(self, path: Path) -> int:
        """Give all that is left to one file; how many bytes it got.

        Where all at once is refused, half is tried, again and again. Raises Failure where the file gets much less than
        was left.
        """
        self._refuse_reserving(path)
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
                    os.ftruncate(
                        descriptor, size
                    )  # some file systems keep the blocks that they gave before they failed
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

    def _refuse_reserving(self, *paths: Path) -> None:
        """Raise Failure where blocks that are reserved have no place."""
        system = filesystems.get(self.target.filesystem)
        if paths and system and system.places_when_written:
            raise Failure(
                f"{paths[0]}: {system.title} gives a block its place when it is written, so no layout is made of "
                "reserved ones; use a study whose files are written (`filler: write`), or another file system"
            )

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


def held_bytes(mount: Path, without: Collection[int] = ()) -> int:
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


def _write_out(out: IO[bytes]) -> None:
    out.flush()
    os.fsync(out.fileno())
