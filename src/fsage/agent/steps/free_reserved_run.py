"""Step `free_reserved_run`: the run of blocks that `fragmented_file` reserved becomes free, long enough for its file.

Keys: generation.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False
KEPT = 2


def describe(step: dict) -> str:
    """The step in words."""
    return "set a run of blocks free"


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Delete the file that kept it."""
    path = files.path_of(target.mounts, step["generation"], KEPT)
    gone = path.exists()
    path.unlink(missing_ok=True)
    return {"files": int(gone)}


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """It is gone."""
    there.pop((step["generation"], KEPT), None)


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """One file of three."""
    shares[0].update(deleted_files=1, deleted_share_files=1 / 3, deleted_share_bytes=1 / 3)
