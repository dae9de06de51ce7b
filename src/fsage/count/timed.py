"""Counts beside records: whether timed cells lie as counted, and how far jumps explain their time."""

from __future__ import annotations

import pandas as pd

from fsage.report import layout
from fsage.report.parts import Section
from fsage.study.study import unseeded


def section(frame: pd.DataFrame, records: pd.DataFrame) -> Section | None:
    """None where nothing was timed."""
    if len(records):
        valid = records[(records["status"] == "valid") & (records["kind"] == "planned")]
    else:
        valid = records
    if valid.empty:
        return None
    sentences = [*_alike(frame, valid)]
    largest = valid[valid["transfer_size_bytes"] == valid["transfer_size_bytes"].max()]
    table = layout.slopes(largest)
    if not table:
        sentences.append(f"Timed files have too few different numbers of jumps ({layout.LEAST} at least) for a line.")
    else:
        sentences.append(
            "A line through each timed file's time over its jumps, at the largest transfer. What is unexplained is the "
            "standard deviation about it."
        )
    figure = layout.over_jumps(largest)
    figures = [figure] if figure else []
    rows = [layout.HEADS, *table] if table else []
    return Section("Counted against timed", " ".join(sentences), figures, table=rows, front=len(figures))


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
