"""Step `populate`: files worth `percent` of the capacity are added.

Keys: generation, percent, file_bytes (list), method (fallocate, write, buffered), request_bytes, files_at_once. How the
files get their blocks decides where holes are left: on each store `files_at_once` of them grow at once, in turns, a
request each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from fsage.agent import filesystems
from fsage.agent.errors import Failure
from fsage.agent.room import Room
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = True


def describe(step: dict) -> str:
    """The step in words."""
    return f"populate generation {step['generation']} to {step['percent']}%"


@lru_cache(maxsize=8)
def file_sizes(percent: int, sizes_bytes: tuple[int, ...], capacity_bytes: int) -> tuple[int, ...]:
    """Sizes of the files of one generation by index: as many as fit into `percent` of the capacity.

    Several sizes are mixed in equal byte shares: the next file has the size that lags most (the first of
    equals). The sum falls short of the goal by less than one file.
    """
    goal = capacity_bytes * percent // 100
    given = [0] * len(sizes_bytes)
    made: list[int] = []
    total = 0
    while True:
        lagging = min(range(len(sizes_bytes)), key=given.__getitem__)
        size = sizes_bytes[lagging]
        if total + size > goal:
            return tuple(made)
        made.append(size)
        given[lagging] += size
        total += size


def sizes_of(done: list[dict], generation: int, capacity_bytes: int) -> tuple[int, ...]:
    """Sizes of the files of a generation that was populated among the steps `done`."""
    made = next(one for one in done if one["kind"] == "populate" and one["generation"] == generation)
    return file_sizes(made["percent"], tuple(made["file_bytes"]), capacity_bytes)


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Make this shard's files."""
    generation, mounts = step["generation"], target.mounts
    sizes = file_sizes(step["percent"], tuple(step["file_bytes"]), target.capacity_bytes)
    room = Room(target, making=[generation])
    room.must_hold(sum(sizes), describe(step))
    files.make_room(mounts, generation)
    mine = range(shard["index"], len(sizes), shard["count"])
    threads = shard.get("threads", 1)

    def some(thread: int) -> None:
        for batch in batches(mine[thread::threads], len(mounts), step["files_at_once"]):
            paths = {index: files.path_of(mounts, generation, index) for index in batch}
            # what was made before another host was lost stays
            missing = [index for index, path in paths.items() if not _made(path, sizes[index])]
            try:
                room.in_turns(
                    [paths[index] for index in missing],
                    [sizes[index] for index in missing],
                    step["request_bytes"],
                    step["method"],
                    check_lease,
                )
            except OSError as error:
                index = int(Path(error.filename).name)
                raise Failure(
                    f"populating stopped at file {index + 1} of {len(sizes)} ({error.filename}, {sizes[index]} bytes): "
                    f"{error.strerror}; asked were {step['percent']}% of {target.capacity_bytes} bytes"
                ) from error

    if threads == 1:
        with filesystems.one_cpu():
            some(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(some, range(threads)))
    return {"files": len(mine)}


def batches(indices: range, stores: int, at_once: int) -> Iterator[list[int]]:
    """Cut a shard's files into those that grow at once: `at_once` on each store, of which file i is on i mod stores."""
    on = [[index for index in indices if index % stores == store] for store in range(stores)]
    for first in range(0, max(map(len, on)), at_once):
        yield sorted(index for one in on for index in one[first : first + at_once])


def _made(path: Path, size: int) -> bool:
    return path.exists() and path.stat().st_size == size


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """Its files are there."""
    sizes = sizes_of([step], step["generation"], capacity_bytes)
    there.update({(step["generation"], index): size for index, size in enumerate(sizes)})


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """A generation more."""
    sizes = sizes_of([step], step["generation"], capacity_bytes)
    shares.append(filled(step["generation"], sum(sizes), len(sizes), capacity_bytes, step["percent"]))


def filled(generation: int, size: int, count: int, capacity_bytes: int, percent: float) -> dict:
    """The shares of a generation of which nothing was deleted yet."""
    return {
        "generation": generation,
        "capacity_percent": percent,
        "capacity_percent_achieved": 100 * size / capacity_bytes,
        "files": count,
        "bytes": size,
        "fragmentation_percent": 0,
        "deleted_files": 0,
        "deleted_share_files": 0.0,
        "deleted_share_bytes": 0.0,
    }
