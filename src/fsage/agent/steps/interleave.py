"""Step `interleave`: files that were written at the same time fill the target, their pieces in turns.

Keys: generation, files, granularity_bytes, method. With `fallocate` one process gives the files their pieces in turns,
as a server does whose preallocation is of that size; with `together` all files are written at once and the server
itself decides (its preallocation is tuned before: tune_prealloc.yml). What is left over is given to one file more, for
slack would hide what the pieces cost; only room.SLACK_BYTES stay free, for the target's own token.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fsage.agent import filesystems
from fsage.agent.errors import Failure
from fsage.agent.room import OWN_BYTES, Room
from fsage.agent.steps.populate import filled
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False
MAP_BYTES = 16  # a piece costs at most about that much in its file's extent tree
RESERVE_BYTES = 256 * 1024  # of each file, and for directories


def describe(step: dict) -> str:
    """The step in words."""
    return f"intermingle {step['files']} files in pieces of {step['granularity_bytes'] >> 10} KiB"


def file_sizes(step: dict, capacity_bytes: int) -> list[int]:
    """Sizes of the files by index: whole pieces, one more for the first ones where they do not come out even."""
    count, piece = step["files"], step["granularity_bytes"]
    books = capacity_bytes // piece * MAP_BYTES + (count + 2) * RESERVE_BYTES + OWN_BYTES
    pieces = max(0, capacity_bytes - books) // piece
    return [(pieces // count + (index < pieces % count)) * piece for index in range(count)]


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Make the files, and one more of what is left."""
    generation, mounts = step["generation"], target.mounts
    if len(mounts) > 1:
        raise Failure(
            f"target {target.name} has {len(mounts)} stores: files are intermingled on one; declare stores: 1"
        )
    sizes = file_sizes(step, target.capacity_bytes)
    room = Room(target)
    room.must_hold(sum(sizes), describe(step))
    files.make_room(mounts, generation)
    paths = [files.path_of(mounts, generation, index) for index in range(len(sizes))]
    try:
        if step["method"] == "together":
            with ThreadPoolExecutor(len(paths)) as pool:
                list(pool.map(room.write, paths, sizes))
        else:
            with filesystems.one_cpu():
                room.in_turns(paths, sizes, step["granularity_bytes"], "fallocate", check_lease)
    except OSError as error:
        raise Failure(
            f"intermingling {len(sizes)} files of {sizes[0]} bytes in {mounts[0]}/filler: {error.strerror}"
        ) from error
    room.rest(files.path_of(mounts, generation, len(sizes)))
    return {"files": len(sizes) + 1}


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """Its files are there, and the one of what was left."""
    generation = step["generation"]
    there.update({(generation, index): size for index, size in enumerate(file_sizes(step, capacity_bytes))})
    there[generation, step["files"]] = None


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """A generation more."""
    sizes = file_sizes(step, capacity_bytes)
    shares.append(filled(step["generation"], sum(sizes), len(sizes), capacity_bytes, 100))
