"""Step `fragmented_file`: one file that lies in a given number of extents, another one's pieces between them.

File 0 is the one that is measured: it is written, for a read of blocks that were never written reads nothing. File 1
stays beside it. File 2 reserves a run of blocks, which step `free_reserved_run` sets free when all else is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fsage.host.evidence import fiemap
from fsage.host.stores import filesystems
from fsage.host.structure import Work, files
from fsage.host.structure.quota import Quota
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.evidence import fragmentation
from fsage.model.filler import BLOCK_BYTES, path_of
from fsage.model.structure import Shard, Step
from fsage.studies.defrag.model import FILES, RESERVED, FragmentedFile

MORE_PERCENT = 5
"""An allocator may cut a piece, such as at the end of a block group: so many percent more extents are allowed."""


def work(step: FragmentedFile, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Give the two files their blocks in turns, then write the first."""
    if len(target.mounts) > 1:
        raise Failure(f"target {target.name} has {len(target.mounts)} stores: a fragmented file needs one; see stores")
    size, generation = step.file_bytes(target.capacity_bytes), step.generation
    piece = size // step.extents // BLOCK_BYTES * BLOCK_BYTES
    if not piece:
        raise Failure(f"{step.extents} extents of a file of {size} bytes would be less than a block each")
    quota = Quota(target)
    quota.must_hold(FILES * size, step.describe())
    files.make_room(target.mounts, generation)
    paths = [path_of(target.mounts, generation, index) for index in (0, 1)]
    cuts = [number * piece for number in range(step.extents)] + [size]
    with filesystems.one_cpu():
        descriptors = [
            os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT | os.O_NOFOLLOW, 0o600) for path in paths
        ]
        try:
            for begin, end in zip(cuts, cuts[1:]):
                check_lease()
                for descriptor, path in zip(descriptors, paths):
                    quota.extend(descriptor, path, begin, end - begin)
            quota.fallocate(path_of(target.mounts, generation, RESERVED), size)
            files.fill(descriptors[0], size)
            os.fsync(descriptors[0])
        except OSError as error:
            raise Failure(f"making {paths[0]} of {size} bytes in extents of {piece}: {error.strerror}") from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    extents = fragmentation.of_file(fiemap.extents(paths[0])).extents
    if not step.extents <= extents <= step.extents * (100 + MORE_PERCENT) // 100:
        raise Failure(f"{paths[0]} has {extents} extents, requested were {step.extents} of {piece} bytes")
    return Work(FILES, {"extents": extents, "piece_bytes": piece})
