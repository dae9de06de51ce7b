"""Step `fragment`: a share of a generation's files is deleted.

What a smaller share deletes is among what a larger one deletes.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.host.structure import Work
from fsage.host.targets.target import Target
from fsage.model.filler import path_of
from fsage.model.structure import Shard, Step
from fsage.studies.paf.model import Fragment, sizes_of


def work(step: Fragment, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Delete those of this shard's files that the step deletes."""
    count = len(sizes_of(done, step.generation, target.capacity_bytes))
    gone = 0
    for index in sorted(step.to_delete(count)):
        if index % shard.count != shard.index:
            continue
        check_lease()
        try:
            path_of(target.mounts, step.generation, index).unlink()
            gone += 1
        except FileNotFoundError:
            pass  # a smaller BB of the same generation took it before
    return Work(gone)
