"""What hosts do for the step `mkfs`."""

from __future__ import annotations

from collections.abc import Callable

from fsage.api.host import Target, Work, format_again
from fsage.api.model import Shard, Step

from .model import Mkfs


def mkfs(step: Mkfs, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Make the file system anew; where mkfs or the kernel does not take the options, without them, and note why."""
    notes = {"options": step.options}
    why = format_again(target, step.options)
    if why:
        notes["unsupported"] = f"mkfs with {step.options}: {why}"
    return Work(0, notes)
