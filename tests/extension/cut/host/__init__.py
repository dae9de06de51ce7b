"""Step `cut`: as its files lie, by truncate(2)."""

from __future__ import annotations

import os
from collections.abc import Callable

from fsage.api.host import Target, Work
from fsage.api.model import Shard, Step, path_of
from fsage.studies.paf.model import sizes_of

from ..model import Cut


def cut(step: Cut, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Cut this shard's files."""
    count = 0
    for index, size in enumerate(sizes_of(done, step.generation, target.capacity_bytes)):
        if index % shard.count == shard.index:
            check_lease()
            os.truncate(path_of(target.mounts, step.generation, index), step.kept_bytes(size))
            count += 1
    return Work(count)
