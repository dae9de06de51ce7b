"""Counts beside records: whether timed cells lie as counted, and how far jumps explain their time."""

from __future__ import annotations

import pandas as pd

from fsage.report.section import Section
from fsage.study.study import unseeded

LEAST = 5
"""So many different counts of jumps a line needs."""


def section(frame: pd.DataFrame, records: pd.DataFrame) -> Section | None:
    """None where nothing was timed."""
    valid = records[(records["status"] == "valid") & (records["kind"] == "planned")] if len(records) else records
    if valid.empty:
        return None
    sentences = [*_alike(frame, valid)]
    table = [["measure", "ms a jump", "at 95%", "r\u00b2", "layouts", "unexplained, % of the time"]]
    for phase in ("write", "read"):
        table += [row for row in [_slope(valid, phase)] if row]
    if len(table) == 1:
        sentences.append(f"Timed files have too few different numbers of jumps ({LEAST} at least) for a line.")
    else:
        sentences.append(
            "A line through each timed file's time over its jumps, at the largest transfer. What is unexplained is the "
            "standard deviation about it."
        )
    return Section("Counted against timed", " ".join(sentences), [], table=table if len(table) > 1 else [])


def _alike(frame: pd.DataFrame, valid: pd.DataFrame) -> list[str]:
    """How many timed cells lie exactly as it was counted."""
    timed = valid.dropna(subset=["measured_extents"]).assign(
        state=valid["state"].map(unseeded), place=valid["place"].fillna(1)
    )
    timed = timed.drop_duplicates(["state", "layout_digest", "place", "transfer_size_bytes"])
    both = timed.merge(frame, on=["state", "layout_digest", "place", "transfer_size_bytes"], suffixes=("_timed", ""))
    if both.empty:
        return ["No timed cell is of a layout that was counted."]
    same = (both["measured_extents"] == both["extents"]) & (
        (both["measured_mean_position"] - both["mean_position"]).abs() < 1e-6
    )
    return [f"{same.sum()} of {len(both)} timed files lie exactly where they were counted."]


def _slope(valid: pd.DataFrame, phase: str) -> list[str] | None:
    seconds = f"{phase}_seconds"
    if seconds not in valid or valid["measured_jumps"].nunique() < LEAST:
        return None
    largest = valid[valid["transfer_size_bytes"] == valid["transfer_size_bytes"].max()]
    each = largest.assign(place=largest["place"].fillna(1)).dropna(subset=[seconds, "measured_jumps"])
    files = each.groupby(["layout_digest", "place"])[[seconds, "measured_jumps"]].median().astype(float)
    if files["measured_jumps"].nunique() < LEAST:
        return None
    from scipy import stats

    line = stats.linregress(files["measured_jumps"], files[seconds])
    reach = stats.t.ppf(0.975, len(files) - 2) * line.stderr
    rest = files[seconds] - line.intercept - line.slope * files["measured_jumps"]
    return [
        phase,
        f"{1000 * line.slope:.2f}",
        f"{1000 * (line.slope - reach):.2f} to {1000 * (line.slope + reach):.2f}",
        f"{line.rvalue**2:.3f}",
        str(len(files)),
        f"{100 * rest.std(ddof=2) / files[seconds].median():.1f}",
    ]
