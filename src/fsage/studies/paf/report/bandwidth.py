"""Bandwidth over capacity and over fragmentation, by transfer size."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import params_labels
from fsage.figures import Axis, Figure, Lines, limits
from fsage.report.section import Data, Section
from fsage.studies.paf.report.fullness import EQUAL_WITHIN_POINTS, against_equally_full, factors
from fsage.studies.paf.report.rows import (
    CAPACITY,
    FRAGMENTATION,
    by_measure,
    choose_transfers,
    levels,
    lines,
    main_rows,
    note,
)


def over_capacity(data: Data) -> Section | None:
    """Bandwidth against nominal capacity, unfragmented states only."""
    rows = main_rows(data)
    rows = choose_transfers(rows[rows["fragmentation_percent"] == 0], (8, 64))
    if rows["capacity_percent"].nunique() < 2:
        return None
    figures: list[Figure] = [
        bandwidth(rows, part, f"{name.capitalize()} bandwidth over capacity", "capacity_percent", CAPACITY)
        for name, _, part in by_measure(rows)
    ]
    return Section("Bandwidth as the file system fills", f"Unfragmented states (BB = 0). {note(rows)}", figures)


def over_fragmentation(data: Data) -> Section | None:
    """Bandwidth against BB at the highest capacity that has several; beside it, against the equally full states."""
    every = main_rows(data)
    several = every.groupby("capacity_percent")["fragmentation_percent"].nunique()
    several = several[several > 1]
    if several.empty:
        return None
    capacity = several.index.max()
    rows = choose_transfers(every[every["capacity_percent"] == capacity], (4, 8, 64))
    figures: list[Figure] = []
    for name, _, part in by_measure(rows):
        title = f"{name.capitalize()} bandwidth over fragmentation at AA = {capacity:g}"
        figures.append(bandwidth(rows, part, title, "fragmentation_percent", FRAGMENTATION))
        whole = every[(every["fragmentation_percent"] == 0) & (every["measure"] == part["measure"].iloc[0])]
        equal = against_equally_full(part[part["fragmentation_percent"] > 0], whole)
        if len(equal):
            title = f"{name.capitalize()}s at AA = {capacity:g} over equally full"
            drawn = lines(equal, "fragmentation_percent", params_labels(equal["params"]), "params")
            figures.append(factors(title, drawn, equal))
    text = (
        f"What deleting does at a nominal capacity of {capacity:g}%: two things at once, for free space is "
        "broken up and real fullness falls. Beside it the same states divided by the unfragmented one of equal real "
        f"fullness (within {EQUAL_WITHIN_POINTS:g} points), where there is one: what is left is fragmentation. "
        + note(rows)
    )
    return Section("Bandwidth as files are deleted", text, figures)


def bandwidth(rows: pd.DataFrame, part: pd.DataFrame, title: str, x: str, x_label: str) -> Lines:
    """One measure's bandwidth over the levels of the column `x`, a line a transfer size; `rows` share the y axis."""
    (name, unit, _) = by_measure(part)[0]
    return Lines(
        title,
        lines(part, x, params_labels(part["params"]), "params"),
        Axis(x_label, ticks=levels(part, x)),
        Axis(f"{name} bandwidth, {unit}", limits(rows)),
    )
