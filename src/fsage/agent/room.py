"""The one place that gives files their bytes: never more of a target than its claim allows, whoever asks.

A target of kind loop is a file system of its own, which ends where its claim does. Others lie on a file system that is
other people's too: there a target's files are counted against its capacity, and so much as that stays free for others
(on Lustre a share of each OST), whatever the claim would still allow.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import IO

from fsage.agent.declaration import MIB
from fsage.agent.errors import Failure
from fsage.agent.lustre import space, stripes
from fsage.agent.structure import files
from fsage.agent.target import Target

BLOCK_BYTES = 4096
SLACK_BYTES = 1 << 20  # stays free where all is given away: for the target's own token, directories, maps of extents
ENTRY_BYTES = 64  # of a directory, for each file
OWN_BYTES = 32 << 20  # what a file system keeps for itself although it is free: ext4 4096 blocks, XFS 8192
MISSED_SHARE = 0.1  # of what was left: more that is not had is no state that was asked for
OTHERS_SHARE = 0.01  # of each OST, for others who use it


class Room:
    """What of a target is left, as one step or cell of it uses it up. Its methods raise Failure, and OSError as files'.

    `making`: generations whose files do not count yet, for a step that goes on where it was left counts them itself.
    `held`: what all files hold, where that is known.
    """

    def __init__(self, target: Target, making: Collection[int] = (), held: int | None = None) -> None:
        self.target, self.lock = target, threading.Lock()
        self.osts = _Osts(target) if target.kind == "lustre" else None
        self.left_bytes = 0
        self.inspect(making, held)

    def inspect(self, making: Collection[int] = (), held: int | None = None) -> None:
        """Count anew what the target's files hold."""
        if held is None:
            held = sum(held_bytes(mount, making) for mount in self.target.mounts)
        slack = 0 if self.target.kind == "loop" else SLACK_BYTES
        self.left_bytes = self.target.capacity_bytes - held - slack

    def must_hold(self, size: int, what: str) -> None:
        """`Failure` if `size` bytes more are more than is left."""
        if size > self.left_bytes:
            raise Failure(
                f"{what}: {size} bytes are wanted, and of the {self.target.capacity_bytes} that the claim of target "
                f"{self.target.name} allows {max(0, self.left_bytes)} are left; less can be asked for, or a larger "
                "target be claimed"
            )
        if (free := self._of_others()) is not None and size > free:
            raise Failure(
                f"{what}: {size} bytes are wanted, and {self.target.mounts[0]} has {max(0, free)} left beside what "
                f"stays free for others; free some, or claim target {self.target.name} elsewhere"
            )

    def fallocate(self, path: Path, size: int, spread: int = 0) -> None:
        """Give a file its blocks without writing them."""
        self._take(size, path, spread)
        files.fallocate(path, size)

    def write(self, path: Path, size: int, spread: int = 0) -> None:
        """Write a file past the cache; what it held is cut off first. `spread`: its stripes, if not as declared."""
        self._take(size, path, spread)
        files.write(path, size)

    def in_turns(
        self,
        paths: Sequence[Path],
        sizes: Sequence[int],
        request_bytes: int,
        method: str,
        check_lease: Callable[[], None],
    ) -> None:
        """Make files that grow at once, as files.in_turns does."""
        for path, size in zip(paths, sizes):  # noqa: B905 (hosts: Python 3.9)
            self._take(size, path)
        files.in_turns(paths, sizes, request_bytes, method, check_lease)

    def extend(self, descriptor: int, path: Path, offset: int, size: int) -> None:
        """Give a file that is open so many blocks more."""
        self._take(size, path)
        os.posix_fallocate(descriptor, offset, size)

    def keep(self, descriptor: int, path: Path, size: int) -> None:
        """Keep blocks for a file that is open; its size stays."""
        self._take(size, path)
        files.allocate(descriptor, files.KEEP_SIZE, 0, size)

    def copy(self, source: Path, path: Path, whole: bool) -> None:
        """Copy a file; `whole`: it has its blocks before, in one piece, the same each time."""
        size = source.stat().st_size
        self._take(size, path, 1)
        if whole:
            files.fallocate(path, size)
        with open(source, "rb") as given, open(path, "r+b" if whole else "wb") as out:
            shutil.copyfileobj(given, out, files.WRITE_BYTES)
            _write_out(out)

    def note(self, path: Path, content: bytes) -> None:
        """Write a small file."""
        self._take(len(content), path, 1)
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
                    if self.osts:  # and theirs is free again some seconds later
                        space.await_frees(self.target.mounts[0], self.target.sync_servers)
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

    def _take(self, size: int, path: Path, spread: int = 0) -> None:
        with self.lock:
            self.must_hold(size, str(path))
            if self.osts:
                self.osts.take(size, path, spread)
            self.left_bytes -= -(-size // BLOCK_BYTES) * BLOCK_BYTES + ENTRY_BYTES

    def _of_others(self) -> int | None:
        """What the file system below still has for the target; None where it is the target's own."""
        if self.osts:
            return self.osts.left()
        return None if self.target.kind == "loop" else _free_bytes(self.target.mounts[0]) - self.target.capacity_bytes

    def _all_of(self, path: Path) -> int:
        """What a file can be given at once."""
        if self.osts:
            most = min(self.left_bytes, self.osts.all_for(path))
        elif (free := self._of_others()) is not None:
            most = min(self.left_bytes, free)
        else:  # the file system knows best what it needs for itself
            most = _free_bytes(path) - SLACK_BYTES
        return max(0, most) // BLOCK_BYTES * BLOCK_BYTES


class _Osts:
    """The OSTs of a target on Lustre, by `lfs df`.

    A look at them is good for as many bytes as the fullest has: until then none can be filled, wherever files come to
    lie. A file for which that is too little is made and asked where it lies.
    """

    def __init__(self, target: Target) -> None:
        self.mount, self.alone = target.mounts[0], target.state_known
        self.declared: int = target.spec["lustre"]["stripe_count"]
        self.stripe_bytes: int = target.spec["lustre"]["stripe_size_mib"] * MIB
        self.good_bytes, self.known = 0, dict[int, space.Ost]()

    def inspect(self) -> None:
        """Ask anew; what a client was told counts as long as it believes it, so wait for that."""
        if self.known:
            time.sleep(space.LOOK_EVERY_S)
        self.known = {ost.number: ost for ost in space.osts(self.mount)}
        self.good_bytes = min(map(self.left_on, self.known))

    def left(self) -> int:
        """What of all of them together is the target's, when last looked at."""
        if not self.known:
            self.inspect()
        return sum(max(0, self.left_on(number)) for number in self.known)

    def left_on(self, number: int) -> int:
        """What of an OST is the target's."""
        ost = self.known[number]
        return ost.available_bytes - (SLACK_BYTES if self.alone else int(OTHERS_SHARE * ost.total_bytes))

    def take(self, size: int, path: Path, spread: int) -> None:
        """`Failure` if an OST would be filled by `size` bytes more in a file of `spread` stripes (0: as declared)."""
        count = spread or self.declared
        self.left()
        each = size if count == 1 else -(-size // (len(self.known) if count < 1 else count)) + self.stripe_bytes
        if each > self.good_bytes:
            self.inspect()
        if each > self.good_bytes:
            path.touch()
            tightest = min((index for one in stripes.of(path) for index in one.osts), key=self.left_on)
            if each > self.left_on(tightest):
                raise Failure(
                    f"{path}: {each} bytes of it would lie on {self.known[tightest].name}, which has "
                    f"{max(0, self.left_on(tightest))} left for target files beside what stays free; free some, or "
                    "claim less of this file system"
                )
            self.good_bytes = each  # of this file; who comes next looks again
        self.good_bytes -= each

    def all_for(self, path: Path) -> int:
        """What a file that is there can be given: what the fullest of its OSTs has, on each of them."""
        self.inspect()
        on = {index for one in stripes.of(path) for index in one.osts}
        return len(on) * max(0, min(map(self.left_on, on)) - (self.stripe_bytes if len(on) > 1 else 0))


def held_bytes(mount: Path, without: Collection[int] = ()) -> int:
    """Bytes of the blocks of all that fsage has on one store, `without` some generations of its files."""
    left_out = {f"g{generation}" for generation in without}
    return sum(_held(mount / tree, left_out) for tree in ("filler", "measured"))


def _held(tree: Path, left_out: Collection[str]) -> int:
    held = 0
    for entry in _entries(tree):
        if entry.name in left_out and entry.is_dir(follow_symlinks=False):
            continue
        held += entry.stat(follow_symlinks=False).st_blocks * 512
        if entry.is_dir(follow_symlinks=False):
            held += _held(Path(entry.path), ())
    return held


def _entries(tree: Path) -> Iterator[os.DirEntry]:
    try:
        with os.scandir(tree) as entries:
            yield from entries
    except FileNotFoundError:
        return


def _free_bytes(place: Path) -> int:
    stat = os.statvfs(place)
    return stat.f_bavail * stat.f_frsize


def _write_out(out: IO[bytes]) -> None:
    out.flush()
    os.fsync(out.fileno())
