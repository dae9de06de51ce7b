"""Step `cut`: every file of a generation is cut to a share of what it was made with.

Keys: generation, kept_percent.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fsage.agent.steps.populate import sizes_of
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = True


def describe(step: dict) -> str:
    """The step in words."""
    return f"cut the files of generation {step['generation']} to {step['kept_percent']}%"


def continues(last: dict, step: dict) -> bool:
    """Less is kept of what is left."""
    return {**last, "kept_percent": 0} == {**step, "kept_percent": 0} and step["kept_percent"] < last["kept_percent"]


def kept_bytes(step: dict, size: int) -> int:
    """What is kept of a file."""
    return size * step["kept_percent"] // 100


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Cut this shard's files."""
    cut = 0
    for index, size in enumerate(sizes_of(done, step["generation"], target.capacity_bytes)):
        if index % shard["count"] == shard["index"]:
            check_lease()
            os.truncate(files.path_of(target.mounts, step["generation"], index), kept_bytes(step, size))
            cut += 1
    return {"files": cut}


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """They are smaller."""
    for (generation, index), size in there.items():
        if generation == step["generation"]:
            there[generation, index] = kept_bytes(step, size)


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """How much of the generation's bytes is gone."""
    shares[-1].update(deleted_share_bytes=1 - step["kept_percent"] / 100)
