"""Rates, losses and scatter over capacity, over fragmentation and over the transfer size."""

from __future__ import annotations

import math

import pandas as pd

from fsage.analysis.groups import counts, factors, measure_label, params_labels
from fsage.figures import Axis, Level, Lines, limits, limits_with_zero, lines
from fsage.report.parts import Data, Section
from fsage.studies.paf.report.fullness import EQUAL_WITHIN_POINTS, against_equally_full, factor_lines
from fsage.studies.paf.report.rows import (
    CAPACITY,
    FRAGMENTATION,
    RELATIVE,
    by_measure,
    choose_transfers,
    levels_axis,
    main_rows,
    note,
    spread,
)
from fsage.text.sizes import round_size

LEAST_POINTS = 10.0
"""The loss axis spans at least this many percentage points."""


def over_capacity(data: Data) -> Section | None:
    """Bandwidth against nominal capacity, unfragmented states only."""
    rows = main_rows(data)
    rows = choose_transfers(rows[rows["fragmentation_percent"] == 0], (8, 64))
    if rows["capacity_percent"].nunique() < 2:
        return None
    figures = [
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
    figures = []
    for name, _, part in by_measure(rows):
        title = f"{name.capitalize()} bandwidth over fragmentation at AA = {capacity:g}"
        figures.append(bandwidth(rows, part, title, "fragmentation_percent", FRAGMENTATION))
        whole = every[(every["fragmentation_percent"] == 0) & (every["measure"] == part["measure"].iloc[0])]
        equal = against_equally_full(part[part["fragmentation_percent"] > 0], whole)
        if len(equal):
            title = f"{RELATIVE.format(name.capitalize())} (AA = {capacity:g})"
            figures.append(factor_lines(title, equal))
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
    y = Axis(f"{name} bandwidth, {unit}", limits(rows))
    return over(title, part, x, x_label, y)


def over(title: str, part: pd.DataFrame, x: str, x_label: str, y: Axis) -> Lines:
    """The rows over the levels of the column `x`, a line a set of parameters."""
    labels = params_labels(part["params"])
    return lines(title, part, "params", levels_axis(part, x, x_label), y, at=x, labels=labels)


def metadata(data: Data) -> Section | None:
    """Each operation's rate against AA, unfragmented, and against BB at the highest capacity that has several."""
    rows = main_rows(data)
    rows = rows[rows["measure"].str.endswith("_per_s")]
    if rows.empty:
        return None
    several = rows.groupby("capacity_percent")["fragmentation_percent"].nunique()
    highest = several[several > 1].index.max()
    axes = (
        ("capacity", rows[rows["fragmentation_percent"] == 0], "capacity_percent", CAPACITY),
        ("fragmentation", rows[rows["capacity_percent"] == highest], "fragmentation_percent", FRAGMENTATION),
    )
    figures = [
        over(
            f"{measure_label(str(measure))[0].capitalize()} rate over {axis}",
            part,
            column,
            label,
            Axis("operations a second", limits(part)),
        )
        for axis, some, column, label in axes
        for measure, part in some.groupby("measure", sort=False)
        if part[column].nunique() > 1
    ]
    text = f"Empty files, each task in a directory of its own; n = {counts(rows)} a point."
    if pd.notna(highest):
        text += f" Over fragmentation: at AA = {highest:g}, where real fullness falls as BB rises."
    if figures:
        return Section("Metadata rates", text, figures)
    return None


def loss(data: Data) -> Section | None:
    """Loss in percent with its interval, at a few states over the transfer size."""
    rows = _losses(main_rows(data))
    if rows.empty:
        return None
    aged = _aged(rows)
    figures = []
    for name, _, part in by_measure(rows):
        of_aged = aged[aged["measure"].isin(part["measure"]) & aged["x"].notna()]
        if of_aged["x"].nunique() > 1:
            ticks = {math.log2(size): round_size(size) for size in sorted(of_aged["transfer_size_bytes"].unique())}
            x = Axis("transfer size", ticks=ticks)
            y = _loss_axis(aged)
            title = f"Loss of {name}s over transfer size"
            labels = {state: state.split("@")[0] for state in of_aged["state"].unique()}
            figures.append(lines(title, of_aged, "state", x, y, labels=labels, levels=[Level(0.0)]))
    if not figures:
        return None
    clean = ", ".join(sorted(rows["clean"].unique()))
    text = (
        f"Against the clean state ({clean}: unfragmented, the lowest capacity) with the same parameters: the median "
        "of all pairwise ratios, with its interval. Above zero is a loss; "
        "the PaF slides show 2-35%, growing with the transfer size."
    )
    return Section("What is lost against a clean file system", text, figures)


def _losses(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a ratio to the clean state; median, low and high are the loss in percent."""
    rows = factors(rows)
    return rows.assign(
        median=100 * (1 - rows["median"]),
        low=100 * (1 - rows["high"]),
        high=100 * (1 - rows["low"]),
        x=rows["transfer_size_bytes"].astype("float64").map(math.log2, na_action="ignore"),
    )


def _aged(rows: pd.DataFrame) -> pd.DataFrame:
    """The fullest states: unfragmented, and fragmented half way and to the end."""
    fullest = rows[rows["capacity_percent"] == rows["capacity_percent"].max()]
    return fullest[fullest["fragmentation_percent"].isin(spread(fullest["fragmentation_percent"], 3))]


def _loss_axis(shared: pd.DataFrame) -> Axis:
    return Axis("loss against clean, %", limits_with_zero(shared, LEAST_POINTS))
