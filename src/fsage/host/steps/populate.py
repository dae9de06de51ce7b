"""Step `populate`: files worth a share of the capacity are added.

How the files get their blocks decides where holes are left: on each store `files_at_once` of them grow at once, in
turns, a request each.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fsage.host.stores import filesystems
from fsage.host.structure import files
from fsage.host.structure.room import Room
from fsage.host.structure.step import Achieved, Files, Shard, Step, Work
from fsage.model.errors import Failure

if TYPE_CHECKING:
    from fsage.host.targets.target import Target

BLOCK_BYTES = 4096


@dataclass(frozen=True)
class Populate(Step):
    """Add files of `file_bytes`, mixed in equal byte shares, worth `percent` of the capacity."""

    SHARDED: ClassVar[bool] = True
    PLAYBOOK: ClassVar[str] = "populate.yml"

    percent: int
    file_bytes: tuple[int, ...]
    seed: int | None
    method: files.Method = "fallocate"
    request_bytes: int = 4 << 20
    files_at_once: int = 16

    def on_target(self, scale_file_size: float, seed: int) -> Step:
        """With file sizes scaled to whole 4 KiB, and the seed."""
        scaled = tuple(max(1, round(size * scale_file_size / BLOCK_BYTES)) * BLOCK_BYTES for size in self.file_bytes)
        return replace(self, file_bytes=scaled, seed=seed if self.seed is None else self.seed)

    def describe(self) -> str:
        """The step in words."""
        return f"populate generation {self.generation} to {self.percent}%"

    def writes_bytes(self, capacity_bytes: int) -> int:
        """As Step.writes_bytes."""
        return 0 if self.method == "fallocate" else capacity_bytes * self.percent // 100

    def calls(self, capacity_bytes: int) -> int:
        """As Step.calls: a file's opening and closing, and its requests."""
        sizes = self.sizes(capacity_bytes)
        return 2 * len(sizes) + sum(-(-size // self.request_bytes) for size in sizes)

    def sizes(self, capacity_bytes: int) -> tuple[int, ...]:
        """Sizes of its files by index."""
        return file_sizes(self.percent, self.file_bytes, capacity_bytes)

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Make this shard's files."""
        mounts, sizes = target.mounts, self.sizes(target.capacity_bytes)
        room = Room(target, making=[self.generation])
        room.must_hold(sum(sizes), self.describe())
        files.make_room(mounts, self.generation, len(sizes))
        there = _there(mounts, self.generation, len(sizes))
        mine = range(shard.index, len(sizes), shard.count)

        def some(thread: int) -> None:
            for batch in batches(mine[thread :: shard.threads], len(mounts), self.files_at_once):
                paths = {index: files.path_of(mounts, self.generation, index) for index in batch}
                # what was made before another host was lost stays
                missing = [index for index in batch if there.get(paths[index]) != sizes[index]]
                try:
                    room.in_turns(
                        [paths[index] for index in missing],
                        [sizes[index] for index in missing],
                        self.request_bytes,
                        self.method,
                        check_lease,
                    )
                except OSError as error:
                    index = int(Path(error.filename).name)
                    raise Failure(
                        f"populating stopped at file {index + 1} of {len(sizes)} ({error.filename}, {sizes[index]} "
                        f"bytes): {error.strerror}; asked were {self.percent}% of {target.capacity_bytes} bytes"
                    ) from error

        if shard.threads == 1:
            with filesystems.one_cpu():
                some(0)
        else:
            with ThreadPoolExecutor(shard.threads) as pool:
                list(pool.map(some, range(shard.threads)))
        return Work(len(mine))

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """Its files are there."""
        files.update({(self.generation, index): size for index, size in enumerate(self.sizes(capacity_bytes))})

    def verify(self, target: Target) -> None:
        """On Lustre a sample of its files must lie on the OSTs that were declared."""
        target.verify_fillers()

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation more."""
        sizes = self.sizes(capacity_bytes)
        shares.append(filled(self.generation, sum(sizes), len(sizes), capacity_bytes, self.percent))


@lru_cache(maxsize=8)
def file_sizes(percent: int, sizes_bytes: tuple[int, ...], capacity_bytes: int) -> tuple[int, ...]:
    """Sizes of the files of one generation by index: as many as fit into `percent` of the capacity.

    Several sizes are mixed in equal byte shares: the next file has the size that lags most (the first of
    equals). The sum falls short of the goal by less than one file.
    """
    goal = capacity_bytes * percent // 100
    given = [0] * len(sizes_bytes)
    made: list[int] = []
    total = 0
    while True:
        lagging = min(range(len(sizes_bytes)), key=given.__getitem__)
        size = sizes_bytes[lagging]
        if total + size > goal:
            return tuple(made)
        made.append(size)
        given[lagging] += size
        total += size


def sizes_of(done: Sequence[Step], generation: int, capacity_bytes: int) -> tuple[int, ...]:
    """Sizes of the files of a generation that was populated among the steps `done`."""
    made = next(step for step in done if isinstance(step, Populate) and step.generation == generation)
    return made.sizes(capacity_bytes)


def batches(indices: range, stores: int, at_once: int) -> Iterator[list[int]]:
    """Cut a shard's files into those that grow at once: `at_once` on each store, of which file i is on i mod stores."""
    on = [[index for index in indices if index % stores == store] for store in range(stores)]
    for first in range(0, max(map(len, on)), at_once):
        yield sorted(index for of_store in on for index in of_store[first : first + at_once])


def _there(mounts: list[Path], generation: int, count: int) -> dict[Path, int]:
    """Sizes of the files of a generation of so many that are there already."""
    first = [first + store for first in range(0, max(1, count), files.SHARD) for store in range(len(mounts))]
    folders = {files.path_of(mounts, generation, index).parent for index in first}
    return {Path(entry.path): entry.stat().st_size for folder in folders for entry in os.scandir(folder)}


def filled(generation: int, size: int, count: int, capacity_bytes: int, percent: float) -> Achieved:
    """The shares of a generation of which nothing was deleted yet."""
    return {
        "generation": generation,
        "capacity_percent": percent,
        "capacity_percent_achieved": 100 * size / capacity_bytes,
        "files": count,
        "bytes": size,
        "fragmentation_percent": 0,
        "deleted_files": 0,
        "deleted_share_files": 0.0,
        "deleted_share_bytes": 0.0,
    }
