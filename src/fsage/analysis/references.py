"""Whether reference states are contiguous: a fragmented reference makes the loss of another state look smaller."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import samples

TIMES = 2.0
"""Up to this multiple of one extent a file is no sign of fragmentation: the file system's own blocks split files."""
SHOWN = 3
"""States that a sentence names."""


def fragmented_references(frame: pd.DataFrame) -> dict[str, str]:
    """State without deleted files -> its extents, where these are too many: '16 extents instead of 1'."""
    valid_rows = samples(frame)
    valid_rows = valid_rows[valid_rows["fragmentation_percent"] == 0]
    too_many = {}
    for state, part in valid_rows.dropna(subset=["measured_extents", "measured_files"]).groupby("state"):
        extents, least = part["measured_extents"].median(), part["measured_files"].median()
        if extents > TIMES * least:
            too_many[str(state)] = f"{extents:.0f} extents instead of {least:.0f}"
    return too_many


def warnings(frame: pd.DataFrame) -> list[str]:
    """Sentences for all these states together."""
    references = fragmented_references(frame)
    if not references:
        return []
    states = "; ".join(f"{state}: {why}" for state, why in list(references.items())[:SHOWN])
    states += f"; and {len(references) - SHOWN} more" if len(references) > SHOWN else ""
    return [
        f"Warning: the reference itself is fragmented ({states}), so the loss may be underestimated. Nothing was "
        "deleted in these states. `filler:`, `request_size:` and `files_at_once:` of a study say how its filler gets "
        "its blocks."
    ]
