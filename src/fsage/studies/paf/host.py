"""The steps of states of age in percent: files are added, and a share of them is deleted.

How the files get their blocks decides where holes are left: on each store `files_at_once` of them grow at once, in
turns, a request each. What a smaller share deletes is among what a larger one deletes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fsage.api.host import Quota, Target, Work, one_cpu
from fsage.api.model import Failure, Shard, Step, path_of

from .model import Fragment, Populate, sizes_of


def populate(step: Populate, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Make this shard's files."""
    mounts = target.mounts
    sizes = step.sizes(target.capacity_bytes)
    quota = Quota(target, making=[step.generation])
    quota.must_hold(sum(sizes), step.describe())
    quota.make_room(step.generation, len(sizes))
    existing = quota.existing(step.generation, len(sizes))
    indices = range(shard.index, len(sizes), shard.count)

    def some(thread: int) -> None:
        for batch in batches(indices[thread :: shard.threads], len(mounts), step.files_at_once):
            paths = {index: path_of(mounts, step.generation, index) for index in batch}
            # files that were made before another host was lost stay
            missing = [index for index in batch if existing.get(paths[index]) != sizes[index]]
            try:
                quota.in_turns(
                    [paths[index] for index in missing],
                    [sizes[index] for index in missing],
                    step.request_bytes,
                    step.method,
                    check_lease,
                )
            except OSError as error:
                index = int(Path(error.filename).name)
                raise Failure(
                    f"populating stopped at file {index + 1} of {len(sizes)} ({error.filename}, {sizes[index]} "
                    f"bytes): {error.strerror}; requested were {step.percent}% of {target.capacity_bytes} bytes"
                ) from error

    if shard.threads == 1:
        with one_cpu():
            some(0)
    else:
        with ThreadPoolExecutor(shard.threads) as pool:
            list(pool.map(some, range(shard.threads)))
    return Work(len(indices))


def verify_populate(step: Populate, target: Target) -> None:
    """On Lustre a sample of its files must lie on the OSTs that were declared."""
    target.osts.verify_fillers()


def batches(indices: range, stores: int, at_once: int) -> Iterator[list[int]]:
    """Cut a shard's files into those that grow at once: `at_once` on each store, of which file i is on i mod stores."""
    on: list[list[int]] = [[] for _ in range(stores)]
    for index in indices:
        on[index % stores].append(index)
    for first in range(0, max(map(len, on)), at_once):
        batch: list[int] = []
        for of_store in on:
            batch += of_store[first : first + at_once]
        yield sorted(batch)


def fragment(step: Fragment, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Delete those of this shard's files that the step deletes."""
    count = len(sizes_of(done, step.generation, target.capacity_bytes))
    gone = 0
    for index in sorted(step.to_delete(count)):
        if index % shard.count != shard.index:
            continue
        check_lease()
        with contextlib.suppress(FileNotFoundError):  # a smaller BB of the same generation took it before
            path_of(target.mounts, step.generation, index).unlink()
            gone += 1
    return Work(gone)
