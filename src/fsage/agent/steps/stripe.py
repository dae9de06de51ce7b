"""Step `stripe`: a layout for the striped file that is measured. It does not make it: each cell makes its own.

On Lustre it is a composite layout of the directory in which cells make theirs, until the next scrub (`pfl`), or a
directory for each segment, which each cell makes anew (`segments`); on a target with stores the file is its objects, by
the map of fsage.agent.striping.

Keys: generation, pattern (its name), realisation, segments (lists of the nominal end in bytes or null, the nominal
stripe count and the stripe's bytes), nominal_bytes (of the file), largest_count (of the pattern's set), and
eviction_file (its size: it is made first, fsage.agent.cells.eviction; null: none).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fsage.agent import striping
from fsage.agent.cells import eviction
from fsage.agent.errors import Refusal
from fsage.agent.lustre import stripes
from fsage.agent.target import Target

SHARDED = False


def describe(step: dict) -> str:
    """The step in words."""
    return f"lay out a file as {step['pattern']} ({step['realisation']})"


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Note the layout as this target has it, or why it has none: its cells are then unsupported."""
    noted: dict[str, Any] = {
        "files": 0,
        "osts": striping.osts_of(target.claim),
        "realisation": step["realisation"],
    }
    if step["eviction_file"] is not None:
        noted["eviction_bytes"] = eviction.make(target, step["eviction_file"], check_lease)
        noted["files"] = eviction.COUNT
    try:
        segments = striping.of_step(step, target.claim)
    except Refusal as why:
        return {**noted, "unsupported": str(why)}
    if target.has_osts:
        measured = target.mounts[0] / "measured"
        if step["realisation"] == striping.PFL:
            stripes.compose(measured, segments)
        else:  # tried once, so that a layout which comes otherwise fails here and not in each cell
            for place in stripes.cut(measured, segments):
                place.rmdir()
    return {**noted, "segments": [list(segment) for segment in segments]}


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """The cache-eviction file, if asked for; of a size that only the target knows."""
    if step["eviction_file"] is not None:
        there.update({(step["generation"], index): None for index in range(eviction.COUNT)})


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """No generation: the cache-eviction file is there to be read."""
