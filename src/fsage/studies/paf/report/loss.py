"""What is lost against the clean state, over capacity and over transfer size; how much the iterations scatter."""

from __future__ import annotations

import math

import pandas as pd

from fsage.analysis.groups import compared, counts, measure_label, params_labels
from fsage.figures import Axis, Band, Figure, Level, Lines, Series, limits_with_zero
from fsage.report.section import Data, Section
from fsage.studies.paf.report.rows import (
    CAPACITY,
    by_measure,
    choose_transfers,
    largest_transfer,
    levels,
    lines,
    main_rows,
    spread,
    transfers,
)
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
        if len(drawn_rows := whole[whole["measure"].isin(part["measure"])]):
            drawn = lines(drawn_rows, "capacity_percent", params_labels(drawn_rows["params"]), "params")
            title = f"Loss of {name}s over capacity"
            figures.append(_figure(title, drawn, Axis(CAPACITY, ticks=levels(drawn_rows, "capacity_percent")), whole))
        drawn_rows = aged[aged["measure"].isin(part["measure"]) & aged["x"].notna()]
        if drawn_rows["x"].nunique() > 1:
            drawn = lines(
                drawn_rows, "x", {state: state.split("@")[0] for state in drawn_rows["state"].unique()}, "state"
            )
            ticks = {math.log2(size): round_size(size) for size in sorted(drawn_rows["transfer_size_bytes"].unique())}
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
    held = [row.interval for row in rows["to_clean"]]
    return rows.assign(
        median=[row.loss_percent for row in rows["to_clean"]],
        low=[100 * (1 - interval.high) if interval else float("nan") for interval in held],
        high=[100 * (1 - interval.low) if interval else float("nan") for interval in held],
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


PUBLISHED_COV_PERCENT = (0.0, 3.5)


def variation(data: Data) -> Section | None:
    """Coefficient of variation at the largest transfer against capacity, unfragmented states."""
    rows = largest_transfer(main_rows(data))
    rows = rows[(rows["fragmentation_percent"] == 0) & rows["cov"].notna()]
    if rows.empty:
        return None
    percent = rows.assign(median=rows["cov"] * 100, low=float("nan"), high=float("nan"))
    percent["samples"] = [[] for _ in range(len(percent))]
    labels = {m: f"{measure_label(m)[0]}s" for m in percent["measure"].unique()}
    highest = max(1.1 * percent["median"].max(), 1.2 * PUBLISHED_COV_PERCENT[1])
    figure = Lines(
        "Coefficient of variation over capacity",
        lines(percent, "capacity_percent", labels, "measure"),
        Axis(CAPACITY, ticks=levels(percent, "capacity_percent")),
        Axis("coefficient of variation, %", (0, highest)),
        band=Band(*PUBLISHED_COV_PERCENT, "published: 0-3.5%, writes"),
    )
    text = f"Sample standard deviation over mean, {transfers(rows)} transfers, {counts(rows)} samples a point."
    return Section("How much iterations scatter", text, [figure])
