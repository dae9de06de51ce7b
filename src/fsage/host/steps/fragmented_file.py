"""Step `fragmented_file`: one file that lies in a given number of extents, another one's pieces between them.

File 0 is the one that is measured: it is written, for a read of blocks that were never written reads nothing. File 1
stays beside it. File 2 reserves a run of blocks, which step `free_reserved_run` sets free when all else is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsage.host.evidence import fiemap, fragmentation
from fsage.host.steps.populate import filled
from fsage.host.stores import filesystems
from fsage.host.structure import files
from fsage.host.structure.room import Room
from fsage.host.structure.step import Achieved, Files, Shard, Step, Work
from fsage.model.errors import Failure

if TYPE_CHECKING:
    from fsage.host.targets.target import Target

BLOCK_BYTES = 4096
MIB = 1 << 20
FILES = 3
RESERVED = 2
MORE_PERCENT = 5
"""An allocator may cut a piece, at the end of a block group for one: so many extents more than asked are taken."""


@dataclass(frozen=True)
class FragmentedFile(Step):
    """Make a file of `percent` of the capacity in so many `extents`; each of the other two takes as much."""

    percent: int
    extents: int

    def describe(self) -> str:
        """The step in words."""
        return f"make a file of {self.percent}% in {self.extents} extents"

    def file_bytes(self, capacity_bytes: int) -> int:
        """The file's size."""
        return whole_mib(self.percent, capacity_bytes)

    def writes_bytes(self, capacity_bytes: int) -> int:
        """As Step.writes_bytes."""
        return self.file_bytes(capacity_bytes)

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Give the two files their blocks in turns, then write the first."""
        if len(target.mounts) > 1:
            raise Failure(
                f"target {target.name} has {len(target.mounts)} stores: a fragmented file needs one; see stores"
            )
        size, generation = self.file_bytes(target.capacity_bytes), self.generation
        piece = size // self.extents // BLOCK_BYTES * BLOCK_BYTES
        if not piece:
            raise Failure(f"{self.extents} extents of a file of {size} bytes would be less than a block each")
        room = Room(target)
        room.must_hold(FILES * size, self.describe())
        files.make_room(target.mounts, generation)
        paths = [files.path_of(target.mounts, generation, index) for index in (0, 1)]
        cuts = [number * piece for number in range(self.extents)] + [size]
        with filesystems.one_cpu():
            descriptors = [
                os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT | os.O_NOFOLLOW, 0o600)
                for path in paths
            ]
            try:
                for begin, end in zip(cuts, cuts[1:]):
                    check_lease()
                    for descriptor, path in zip(descriptors, paths):
                        room.extend(descriptor, path, begin, end - begin)
                room.fallocate(files.path_of(target.mounts, generation, RESERVED), size)
                files.fill(descriptors[0], size)
                os.fsync(descriptors[0])
            except OSError as error:
                raise Failure(f"making {paths[0]} of {size} bytes in pieces of {piece}: {error.strerror}") from error
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
        found = fragmentation.of_file(fiemap.extents(paths[0])).extents
        if not self.extents <= found <= self.extents * (100 + MORE_PERCENT) // 100:
            raise Failure(f"{paths[0]} lies in {found} extents, asked were {self.extents} of {piece} bytes")
        return Work(FILES, {"extents": found, "piece_bytes": piece})

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """All three are there."""
        files.update({(self.generation, index): self.file_bytes(capacity_bytes) for index in range(FILES)})

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation of three files."""
        size = FILES * self.file_bytes(capacity_bytes)
        shares.append(filled(self.generation, size, FILES, capacity_bytes, FILES * self.percent))


def whole_mib(percent: int, capacity_bytes: int) -> int:
    """A share of the capacity in whole MiB: fio reads whole transfers only."""
    return capacity_bytes * percent // 100 // MIB * MIB
