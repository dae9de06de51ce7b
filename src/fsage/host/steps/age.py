"""Step `age`: files come and go as users make and delete them, by writes through the cache, until so much was written.

Nothing is laid by hand: which blocks a file gets, and which are left free, is what the file system itself makes of it.
So a state that was reached so is an original, beside which a replica can be measured (step keep_free_space).
"""

from __future__ import annotations

import contextlib
import errno
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.host.steps.populate import filled
from fsage.host.stores import filesystems
from fsage.host.structure import files, uses
from fsage.host.structure.room import Room
from fsage.host.structure.step import Achieved, Notes, Shard, Step, Work
from fsage.host.system import caches
from fsage.model.errors import Failure

if TYPE_CHECKING:
    from fsage.host.targets.target import Target

CHECK_EVERY = 64
FLUSHES = 256
"""So often what was written is flushed while as much as the capacity is: else what is deleted never got its blocks."""


@dataclass(frozen=True)
class Age(Step):
    """Use it as `way` says until `percent` of the capacity are in use and `written_percent` of it were written."""

    way: uses.Way
    percent: int
    written_percent: int
    seed: int | None

    def describe(self) -> str:
        """The step in words."""
        return f"age by {self.way} to {self.percent}%, with {self.written_percent}% of the capacity written"

    def writes_bytes(self, capacity_bytes: int) -> int:
        """As Step.writes_bytes."""
        return self._bytes(capacity_bytes)[1]

    def left(self, capacity_bytes: int) -> dict[tuple[str, str], int]:
        """(folder, name) -> size of the files that are there in the end."""
        return uses.left(self.way, *self._bytes(capacity_bytes), self.seed or 0)

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Do what users do."""
        if len(target.mounts) > 1:
            raise Failure(f"target {target.name} has {len(target.mounts)} stores: one is aged; declare stores: 1")
        full_bytes, written_bytes = self._bytes(target.capacity_bytes)
        mount = target.mounts[0]
        there: Counter[str] = Counter()  # files by folder
        dirty = 0
        with contextlib.ExitStack() as stack:
            stack.enter_context(Room(target).reserve(full_bytes, mount))
            content = stack.enter_context(files.noise(uses.LARGEST_BYTES))
            stack.enter_context(filesystems.one_cpu())
            for number, one in enumerate(uses.changes(self.way, full_bytes, written_bytes, self.seed or 0)):
                if number % CHECK_EVERY == 0:
                    check_lease()
                path = mount / "filler" / one.folder / one.name
                if one.first and one.size is not None and not there[one.folder]:
                    files.make_folder(mount, one.folder)
                try:
                    _do(one, path, content)
                except OSError as error:
                    raise Failure(f"{self.describe()} stopped at {path}: {error.strerror}") from error
                dirty += one.size or 0
                if dirty > target.capacity_bytes // FLUSHES:
                    caches.flush(mount)
                    dirty = 0
                there[one.folder] += one.first if one.size is not None else -1
                if not there[one.folder]:
                    _remove_emptied(path.parent)
        return Work(sum(there.values()), {"capacity_bytes": target.capacity_bytes, "folders": len(+there)})

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """Its files have names of their own; which are left follows from what it did."""
        left = self.left(noted["capacity_bytes"]) if noted else ()
        return [mounts[0] / "filler" / folder / name for folder, name in left]

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """What is left of its files."""
        left = self.left(capacity_bytes)
        shares.append(filled(self.generation, sum(left.values()), len(left), capacity_bytes, self.percent))

    def _bytes(self, capacity_bytes: int) -> tuple[int, int]:
        return capacity_bytes * self.percent // 100, capacity_bytes * self.written_percent // 100


def _remove_emptied(folder: Path) -> None:
    """Remove a folder, but where it holds files of a step before."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise Failure(f"{folder} cannot be removed: {error.strerror}") from error


def _do(one: uses.Change, path: Path, content: memoryview) -> None:
    if one.size is None:
        path.unlink()
    else:
        files.append(path, content[: one.size], one.flush)
