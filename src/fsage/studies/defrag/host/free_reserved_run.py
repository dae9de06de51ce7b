"""Step `free_reserved_run`: the run of blocks that `fragmented_file` reserved becomes free; its file fits there."""

from __future__ import annotations

from collections.abc import Callable

from fsage.host.structure import Work
from fsage.host.targets.target import Target
from fsage.model.filler import path_of
from fsage.model.structure import Shard, Step
from fsage.studies.defrag.model import RESERVED, FreeReservedRun


def work(
    step: FreeReservedRun, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]
) -> Work:
    """Delete the file that reserved it."""
    path = path_of(target.mounts, step.generation, RESERVED)
    gone = path.exists()
    path.unlink(missing_ok=True)
    return Work(int(gone))
