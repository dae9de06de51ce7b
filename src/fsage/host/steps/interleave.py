"""Step `interleave`: files that were written at the same time fill the target, their pieces in turns.

With `fallocate` one process gives the files their pieces in turns, as a server does whose preallocation is of that
size; with `together` all files are written at once and the server itself decides (its preallocation is tuned before:
tune_prealloc.yml). What is left over is given to one file more, for slack would hide what the pieces cost; only
room.SLACK_BYTES stay free, for the target's own token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fsage.host.steps.populate import filled
from fsage.host.stores import filesystems
from fsage.host.structure import files
from fsage.host.structure.room import OWN_BYTES, Room
from fsage.host.structure.step import Achieved, Files, Shard, Step, Work
from fsage.model.errors import Failure

if TYPE_CHECKING:
    from fsage.host.targets.target import Target

MAP_BYTES = 16  # a piece costs at most about that much in its file's extent tree
RESERVE_BYTES = 256 * 1024  # of each file, and for directories
TOGETHER = "together"


@dataclass(frozen=True)
class Interleave(Step):
    """Fill the target with so many `files`, whose pieces of `granularity_bytes` lie in turns."""

    files: int
    granularity_bytes: int
    method: Literal["fallocate", "together"] = "fallocate"

    def describe(self) -> str:
        """The step in words."""
        return f"interleave {self.files} files in pieces of {self.granularity_bytes >> 10} KiB"

    def file_sizes(self, capacity_bytes: int) -> list[int]:
        """Sizes of the files by index: whole pieces, one more for the first ones where they do not come out even."""
        count, piece_bytes = self.files, self.granularity_bytes
        books = capacity_bytes // piece_bytes * MAP_BYTES + (count + 2) * RESERVE_BYTES + OWN_BYTES
        pieces = max(0, capacity_bytes - books) // piece_bytes
        return [(pieces // count + (index < pieces % count)) * piece_bytes for index in range(count)]

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Make the files, and one more of what is left."""
        mounts = target.mounts
        if len(mounts) > 1:
            raise Failure(
                f"target {target.name} has {len(mounts)} stores: files are interleaved on one; declare stores: 1"
            )
        sizes = self.file_sizes(target.capacity_bytes)
        room = Room(target)
        room.must_hold(sum(sizes), self.describe())
        files.make_room(mounts, self.generation)
        paths = [files.path_of(mounts, self.generation, index) for index in range(len(sizes))]
        try:
            if self.method == TOGETHER:
                with ThreadPoolExecutor(len(paths)) as pool:
                    list(pool.map(room.write, paths, sizes))
            else:
                with filesystems.one_cpu():
                    room.in_turns(paths, sizes, self.granularity_bytes, "fallocate", check_lease)
        except OSError as error:
            raise Failure(
                f"interleaving {len(sizes)} files of {sizes[0]} bytes in {mounts[0]}/filler: {error.strerror}"
            ) from error
        room.rest(files.path_of(mounts, self.generation, len(sizes)))
        return Work(len(sizes) + 1)

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """Its files are there, and the one of what was left."""
        files.update({(self.generation, index): size for index, size in enumerate(self.file_sizes(capacity_bytes))})
        files[self.generation, self.files] = None

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation more."""
        sizes = self.file_sizes(capacity_bytes)
        shares.append(filled(self.generation, sum(sizes), len(sizes), capacity_bytes, 100))


def sizes_of(done: Sequence[Step], generation: int, capacity_bytes: int) -> list[int]:
    """Sizes of the files of a generation that was interleaved among the steps `done`."""
    made = next(step for step in done if isinstance(step, Interleave) and step.generation == generation)
    return made.file_sizes(capacity_bytes)
