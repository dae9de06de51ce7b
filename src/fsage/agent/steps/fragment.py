"""Step `fragment`: each file of a generation is deleted with probability `percent`.

Keys: generation, percent, seed. What a smaller share deletes is among what a larger one deletes.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.agent.steps.populate import sizes_of
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = True


def describe(step: dict) -> str:
    """The step in words."""
    return f"fragment generation {step['generation']} by {step['percent']}%"


def doomed(seed: int, generation: int, percent: int, count: int) -> set[int]:
    """Indices among `count` files of a generation that `percent` fragmentation deletes."""
    return {index for index in range(count) if files.fate(seed, generation, index) < percent / 100}


def continues(last: dict, step: dict) -> bool:
    """A larger share of the same generation goes on from a smaller one."""
    return {**last, "percent": 0} == {**step, "percent": 0} and step["percent"] > last["percent"]


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Delete this shard's doomed files."""
    count = len(sizes_of(done, step["generation"], target.capacity_bytes))
    gone = 0
    for index in sorted(doomed(step["seed"], step["generation"], step["percent"], count)):
        if index % shard["count"] != shard["index"]:
            continue
        check_lease()
        try:
            files.path_of(target.mounts, step["generation"], index).unlink()
            gone += 1
        except FileNotFoundError:
            pass  # a smaller BB of the same generation took it before
    return {"files": gone}


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """The doomed ones are gone."""
    generation = step["generation"]
    count = sum(1 for key in there if key[0] == generation)
    for index in doomed(step["seed"], generation, step["percent"], count):
        there.pop((generation, index), None)


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """How much of the generation was deleted."""
    sizes = sizes_of(done, step["generation"], capacity_bytes)
    lost = doomed(step["seed"], step["generation"], step["percent"], len(sizes))
    shares[-1].update(
        fragmentation_percent=step["percent"],
        deleted_files=len(lost),
        deleted_share_files=len(lost) / len(sizes) if sizes else 0.0,
        deleted_share_bytes=sum(sizes[i] for i in lost) / sum(sizes) if sizes else 0.0,
    )
