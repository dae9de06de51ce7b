"""The steps of states of preallocation: files that were written at the same time fill the target, and some are deleted.

With `fallocate` one process gives the files their pieces in turns, like a server with a preallocation of that size.
With `together` all files are written at once, and the server lays them out (tune_prealloc.yml tunes it before). One
more file gets what is left over, because slack would hide the cost of the pieces. Only SLACK_BYTES
(fsage.model.structure) stay free, for the target's own token.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fsage.api.host import Quota, Target, Work, one_cpu
from fsage.api.model import Failure, Shard, Step, path_of

from .model import TOGETHER, DeleteFiles, Interleave, sizes_of


def interleave(
    step: Interleave, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]
) -> Work:
    """Make the files, and one more of what is left."""
    mounts = target.mounts
    sizes = step.file_sizes(target.capacity_bytes)
    quota = Quota(target)
    quota.must_hold(sum(sizes), step.describe())
    quota.make_room(step.generation)
    paths = [path_of(mounts, step.generation, index) for index in range(len(sizes))]
    try:
        if step.method == TOGETHER:
            with ThreadPoolExecutor(len(paths)) as pool:
                list(pool.map(quota.write, paths, sizes))
        else:
            with one_cpu():
                quota.in_turns(paths, sizes, step.granularity_bytes, "fallocate", check_lease)
    except OSError as error:
        raise Failure(
            f"interleaving {len(sizes)} files of {sizes[0]} bytes in {mounts[0]}/filler: {error.strerror}"
        ) from error
    quota.rest(path_of(mounts, step.generation, len(sizes)))
    return Work(len(sizes) + 1)


def delete_files(
    step: DeleteFiles, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]
) -> Work:
    """Delete the files that go."""
    gone = 0
    for index in step.going(len(sizes_of(done, step.generation, target.capacity_bytes))):
        check_lease()
        path = path_of(target.mounts, step.generation, index)
        gone += path.exists()
        path.unlink(missing_ok=True)
    return Work(gone)
