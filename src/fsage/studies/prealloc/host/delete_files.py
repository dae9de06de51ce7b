"""Step `delete_files`: of a generation's files, some are deleted, one after the other in a seeded random order.

The target's allocator starts anew before each cell, as always.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.host.structure import Work
from fsage.host.targets.target import Target
from fsage.model.filler import path_of
from fsage.model.structure import Shard, Step
from fsage.studies.prealloc.model import DeleteFiles, sizes_of


def work(step: DeleteFiles, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Delete the files that go."""
    gone = 0
    for index in step.going(len(sizes_of(done, step.generation, target.capacity_bytes))):
        check_lease()
        path = path_of(target.mounts, step.generation, index)
        gone += path.exists()
        path.unlink(missing_ok=True)
    return Work(gone)
