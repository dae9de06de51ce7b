"""What hosts do for it: planted free space, and the calls that are timed, each where it can be left behind.

Step `plant_free_space`: free space is laid out where it was planned, block by block, as that of a replica is.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.host.structure import Work
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.structure import Shard, Step
from fsage.studies.allocator.model import PlantFreeSpace
from fsage.studies.replica.host import free_space_layout

GROUP_BLOCKS_A_BYTE = 8


def plant_free_space(
    step: PlantFreeSpace, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]
) -> Work:
    """Lay it out; notes of what is free now, and of the group in which the run lies."""
    head, usable = free_space_layout.read(target)
    try:
        wanted = step.wanted(usable)
    except ValueError as why:
        raise Failure(f"target {target.name}: {why}") from None
    name = f"of {step.fullness_percent:g}% full"
    notes = free_space_layout.lay(target, step.generation, name, (head, wanted), False, check_lease)
    group_bytes = GROUP_BLOCKS_A_BYTE * head.block_bytes**2  # of ext4: a block of its bitmap
    notes["groups"] = -(-head.device_bytes // group_bytes)
    if step.run_bytes:
        start = next(start for start, end in wanted if end - start == step.run_bytes)
        notes["run_group"] = start // group_bytes
    return Work(notes["files"], notes)
