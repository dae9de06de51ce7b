"""Whether files that were to lie whole do: an unfragmented state that is fragmented is no reference for another."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import samples

TIMES = 2.0
"""So many times the least number of extents, one a file, are no sign yet: a file system's own blocks may part one."""


def fragmented_references(frame: pd.DataFrame) -> dict[str, str]:
    """State of which no file was deleted -> how its measured files lie, if not contiguous: '16 pieces instead of 1'."""
    valid_rows = samples(frame)
    valid_rows = valid_rows[valid_rows["fragmentation_percent"] == 0]
    references = {}
    for state, part in valid_rows.dropna(subset=["measured_extents", "measured_files"]).groupby("state"):
        extents, least = part["measured_extents"].median(), part["measured_files"].median()
        if extents > TIMES * least:
            references[str(state)] = f"{extents:.0f} pieces instead of {least:.0f}"
    return references


def warnings(frame: pd.DataFrame) -> list[str]:
    """Sentences for all these states together."""
    references = fragmented_references(frame)
    if not references:
        return []
    states = "; ".join(f"{state}: {why}" for state, why in references.items())
    return [
        f"Warning: the reference itself is fragmented ({states}), so the loss may be underestimated. Nothing was "
        "deleted in these states. `filler:`, `request_size:` and `files_at_once:` of a study say how its filler gets "
        "its blocks."
    ]
