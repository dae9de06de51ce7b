"""Whether files that were to lie whole do: an unfragmented state that is fragmented is no reference for another."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import samples

TIMES = 2.0
"""So many times the least number of extents, one a file, are no sign yet: a file system's own blocks may part one."""


def fragmented_references(frame: pd.DataFrame) -> dict[str, str]:
    """By state of which no file was deleted: how its measured files lie if not whole (16 extents, where 1 would do)."""
    mine = samples(frame)
    mine = mine[mine["fragmentation_percent"] == 0]
    found = {}
    for state, part in mine.dropna(subset=["measured_extents", "measured_files"]).groupby("state"):
        extents, least = part["measured_extents"].median(), part["measured_files"].median()
        if extents > TIMES * least:
            found[str(state)] = f"{extents:.0f} extents, where {least:.0f} would do"
    return found


def warnings(frame: pd.DataFrame) -> list[str]:
    """A sentence for all such states together."""
    found = fragmented_references(frame)
    if not found:
        return []
    states = "; ".join(f"{state}: {why}" for state, why in found.items())
    return [
        f"Nothing was deleted in these states, and still their measured files do not lie whole ({states}): what is "
        "compared with them is compared with a fragmented state. `fsage evidence` shows where they lie, and "
        "`filler:`, `request_size:` and `files_at_once:` of a study say how its filler gets its blocks."
    ]
