"""Step `restore`: the target becomes a file system that is in production elsewhere, out of an image of its metadata.

Directories, files and free space lie as they do there; what files hold does not come along. Whoever made the image
decides what the kernel reads, so a study has to say that it is trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fsage.host.structure import Work
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.structure import Shard, Step
from fsage.studies.aged.model import Restore


def work(step: Restore, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Replace the target's file system by that of the image. Raises Failure."""
    if not step.input or step.input not in target.inputs:
        raise Failure(f"the request lacks the image {step.image}; `fsage request STUDY STATE` makes a complete request")
    if done:
        raise Failure(f"{step.describe()}: it replaces the whole file system, so it must be the first step")
    notes = target.restore(Path(target.inputs[step.input]), step.input, check_lease)
    return Work(1, notes)
