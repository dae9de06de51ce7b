"""What is lost against the clean state, over capacity and over transfer size."""

from __future__ import annotations

import math

import pandas as pd

from fsage.analysis.groups import compared, params_labels
from fsage.figures import Axis, Figure, Level, Lines, Series, limits_with_zero
from fsage.report.section import Data, Section
from fsage.studies.paf.report.rows import CAPACITY, by_measure, choose_transfers, levels, lines, main_rows, spread
from fsage.text.sizes import round_size

LEAST_POINTS = 10.0
"""The loss axis spans at least this many percentage points."""


def loss(data: Data) -> Section | None:
    """Loss in percent with its interval: as the file system fills, and at a few states over the transfer size."""
    rows = _losses(main_rows(data))
    if rows.empty:
        return None
    whole = choose_transfers(rows[rows["fragmentation_percent"] == 0], (8, 64))
    aged = _aged(rows)
    figures: list[Figure] = []
    for name, _, part in by_measure(rows):
        if len(mine := whole[whole["measure"].isin(part["measure"])]):
            drawn = lines(mine, "capacity_percent", params_labels(mine["params"]), "params")
            title = f"Loss of {name}s over capacity"
            figures.append(_figure(title, drawn, Axis(CAPACITY, ticks=levels(mine, "capacity_percent")), whole))
        mine = aged[aged["measure"].isin(part["measure"]) & aged["x"].notna()]
        if mine["x"].nunique() > 1:
            drawn = lines(mine, "x", {state: state.split("@")[0] for state in mine["state"].unique()}, "state")
            ticks = {math.log2(size): round_size(size) for size in sorted(mine["transfer_size_bytes"].unique())}
            title = f"Loss of {name}s over transfer size"
            figures.append(_figure(title, drawn, Axis("transfer size", ticks=ticks), aged))
    if not figures:
        return None
    clean = ", ".join(sorted(rows["clean"].unique()))
    text = (
        f"Against the clean state ({clean}: unfragmented, the lowest capacity) with the same parameters: the median "
        "of all pairwise ratios, with the interval that inverts the exact rank-sum test. Above zero is a loss; "
        "published are 2-35%, growing with the transfer size."
    )
    return Section("What is lost against a clean file system", text, figures)


def _losses(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a ratio to the clean state; median, low and high are the loss in percent."""
    rows = compared(rows, "loss_percent")
    held = [one.interval for one in rows["to_clean"]]
    return rows.assign(
        median=[one.loss_percent for one in rows["to_clean"]],
        low=[100 * (1 - one.high) if one else float("nan") for one in held],
        high=[100 * (1 - one.low) if one else float("nan") for one in held],
        samples=[[] for _ in held],
        x=rows["transfer_size_bytes"].astype("float64").map(math.log2, na_action="ignore"),
    )


def _aged(rows: pd.DataFrame) -> pd.DataFrame:
    """The fullest states: unfragmented, and fragmented half way and to the end."""
    fullest = rows[rows["capacity_percent"] == rows["capacity_percent"].max()]
    return fullest[fullest["fragmentation_percent"].isin(spread(fullest["fragmentation_percent"], 3))]


def _figure(title: str, drawn: tuple[Series, ...], x: Axis, shared: pd.DataFrame) -> Lines:
    y = Axis("loss against clean, %", limits_with_zero(shared, LEAST_POINTS))
    return Lines(title, drawn, x, y, (Level(0.0),))
