"""Step `delete_files`: of a generation's files, some are deleted, one after the other in a seeded random order.

Keys: generation, deleted (how many), seed. The target's allocator starts anew before each cell, as always.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.agent.steps import interleave
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False


def describe(step: dict) -> str:
    """The step in words."""
    return f"thin out generation {step['generation']} by {step['deleted']} files"


def order(seed: int, generation: int, count: int) -> list[int]:
    """Indices of a generation's files in the order in which they go."""
    return sorted(range(count), key=lambda index: files.fate(seed, generation, index))


def continues(last: dict, step: dict) -> bool:
    """More of the same generation go on from fewer."""
    return {**last, "deleted": 0} == {**step, "deleted": 0} and step["deleted"] > last["deleted"]


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Delete the files that go."""
    gone = 0
    count = len(_sizes(done, step, target.capacity_bytes))
    for index in order(step["seed"], step["generation"], count)[: step["deleted"]]:
        check_lease()
        path = files.path_of(target.mounts, step["generation"], index)
        gone += path.exists()
        path.unlink(missing_ok=True)
    return {"files": gone}


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """They are gone."""
    generation = step["generation"]
    count = sum(1 for key, size in there.items() if key[0] == generation and size is not None)
    for index in order(step["seed"], generation, count)[: step["deleted"]]:
        there.pop((generation, index), None)


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """How much of the generation was deleted."""
    sizes = _sizes(done, step, capacity_bytes)
    gone = order(step["seed"], step["generation"], len(sizes))[: step["deleted"]]
    shares[-1].update(
        deleted_files=len(gone),
        deleted_share_files=len(gone) / len(sizes),
        deleted_share_bytes=sum(sizes[index] for index in gone) / sum(sizes),
    )


def _sizes(done: list[dict], step: dict, capacity_bytes: int) -> list[int]:
    made = next(one for one in done if one["kind"] == "interleave" and one["generation"] == step["generation"])
    return interleave.file_sizes(made, capacity_bytes)
