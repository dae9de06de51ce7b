"""The steps of states that are original: aged by use, or restored from an image of a file system's metadata.

`age`: files come and go as users make and delete them, by writes through the cache. Which blocks a file gets is what
the file system itself makes of it, so this state is an original, beside which a replica can be measured.

`restore`: directories, files and free space lie as in production elsewhere; what files hold does not come along.
Whoever made the image decides what the kernel reads, so a study has to say that it is trusted.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fsage.api.host import Quota, Target, Work, caches, one_cpu
from fsage.api.model import Failure, Shard, Step

from . import model
from .model import Age, Restore

CHECK_EVERY = 64
FLUSHES = 256
"""So often what was written is flushed while as much as the capacity is: else what is deleted never got its blocks."""


def age(step: Age, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Write and delete files as the step's way of use says, until so many bytes were written. Raises Failure."""
    full_bytes, written_bytes = step._bytes(target.capacity_bytes)
    mount = target.mounts[0]
    counts: Counter[str] = Counter()  # files by folder
    dirty = 0
    with Quota(target).reserve(full_bytes, mount, model.LARGEST_BYTES) as reserved, one_cpu():
        for number, change in enumerate(model.changes(step.way, full_bytes, written_bytes, step.seed or 0)):
            if number % CHECK_EVERY == 0:
                check_lease()
            path = mount / "filler" / change.folder / change.name
            if change.first and change.size is not None and not counts[change.folder]:
                reserved.make_folder(change.folder)
            try:
                if change.size is None:
                    path.unlink()
                else:
                    reserved.append(path, change.size, change.flush)
            except OSError as error:
                raise Failure(f"{step.describe()} stopped at {path}: {error.strerror}") from error
            dirty += change.size or 0
            if dirty > target.capacity_bytes // FLUSHES:
                caches.flush(mount)
                dirty = 0
            counts[change.folder] += change.first if change.size is not None else -1
            if not counts[change.folder]:
                _remove_emptied(path.parent)
    return Work(sum(counts.values()), {"capacity_bytes": target.capacity_bytes, "folders": len(+counts)})


def _remove_emptied(folder: Path) -> None:
    """Remove a folder, but where it holds files of a step before."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise Failure(f"{folder} cannot be removed: {error.strerror}") from error


def restore(step: Restore, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Replace the target's file system by that of the image. Raises Failure."""
    if not step.input or step.input not in target.inputs:
        raise Failure(f"the request lacks the image {step.image}; `fsage request STUDY STATE` makes a complete request")
    if done:
        raise Failure(f"{step.describe()}: it replaces the whole file system, so it must be the first step")
    notes = target.restore(Path(target.inputs[step.input]), step.input, check_lease)
    return Work(1, notes)
