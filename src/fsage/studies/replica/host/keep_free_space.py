"""Step `keep_free_space`: what is free stays free, block by block, and large files take the place of all other files.

So what the steps before left is measured once more without their files: what its free space alone costs. It is how a
replica is compared with its original (config/replica_validity.yaml).
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.host.structure import Work, files
from fsage.host.targets.target import Target
from fsage.model.structure import Shard, Step
from fsage.studies.replica.host import free_space_layout
from fsage.studies.replica.model import KeepFreeSpace


def work(step: KeepFreeSpace, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Read the free space, delete all files, and lay out the same free space again."""
    layout = free_space_layout.now(target)
    for mount in target.mounts:
        files.remove_folders(mount)
        files.remove_others(mount)
    notes = free_space_layout.lay(
        target, step.generation, f"of {done[-1].describe()}", layout, step.joined, check_lease
    )
    return Work(notes["files"], notes)
