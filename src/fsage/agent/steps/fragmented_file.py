"""Step `fragmented_file`: one file that lies in a given number of extents, another one's pieces between them.

Keys: generation, percent (the file's share of the capacity; each of the others takes as much), extents. File 0 is the
one that is measured: it is written, for a read of blocks that were never written reads nothing. File 1 stays beside it.
File 2 keeps a run of blocks, which step `free_reserved_run` sets free when all else is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fsage.agent import filesystems
from fsage.agent.errors import Failure
from fsage.agent.evidence import fiemap, fragmentation
from fsage.agent.room import Room
from fsage.agent.steps.populate import filled
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False
BLOCK_BYTES = 4096
MIB = 1 << 20
MORE_PERCENT = 5
"""An allocator may cut a piece, at the end of a block group for one: so many extents more than asked are taken."""


def describe(step: dict) -> str:
    """The step in words."""
    return f"make a file of {step['percent']}% in {step['extents']} extents"


def file_bytes(step: dict, capacity_bytes: int) -> int:
    """The file's size, whole MiB: fio reads whole transfers only."""
    return capacity_bytes * step["percent"] // 100 // MIB * MIB


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Give the two files their blocks in turns, then write the first."""
    if len(target.mounts) > 1:
        raise Failure(f"target {target.name} has {len(target.mounts)} stores: a file in pieces needs one; see stores")
    size, generation = file_bytes(step, target.capacity_bytes), step["generation"]
    piece = size // step["extents"] // BLOCK_BYTES * BLOCK_BYTES
    if not piece:
        raise Failure(f"{step['extents']} extents of a file of {size} bytes would be less than a block each")
    room = Room(target)
    room.must_hold(3 * size, describe(step))
    files.make_room(target.mounts, generation)
    paths = [files.path_of(target.mounts, generation, index) for index in (0, 1)]
    cuts = [number * piece for number in range(step["extents"])] + [size]
    with filesystems.one_cpu():
        descriptors = [
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT | os.O_NOFOLLOW, 0o600) for path in paths
        ]
        try:
            for begin, end in zip(cuts, cuts[1:]):  # noqa: B905, RUF007 (hosts: Python 3.9)
                check_lease()
                for descriptor, path in zip(descriptors, paths):  # noqa: B905 (hosts: Python 3.9)
                    room.extend(descriptor, path, begin, end - begin)
            room.fallocate(files.path_of(target.mounts, generation, 2), size)
            files.fill(descriptors[0], size)
            os.fsync(descriptors[0])
        except OSError as error:
            raise Failure(f"making {paths[0]} of {size} bytes in pieces of {piece}: {error.strerror}") from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    found = fragmentation.of_file(fiemap.extents(paths[0])).extents
    if not step["extents"] <= found <= step["extents"] * (100 + MORE_PERCENT) // 100:
        raise Failure(f"{paths[0]} lies in {found} extents, asked were {step['extents']} of {piece} bytes")
    return {"files": 3, "extents": found, "piece_bytes": piece}


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """All three are there."""
    there.update({(step["generation"], index): file_bytes(step, capacity_bytes) for index in (0, 1, 2)})


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """A generation of three files."""
    size = 3 * file_bytes(step, capacity_bytes)
    shares.append(filled(step["generation"], size, 3, capacity_bytes, 3 * step["percent"]))
