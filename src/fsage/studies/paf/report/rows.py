"""Which groups a figure shows, and what their lines, axes and points are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fsage.analysis.groups import compared, counts, measure_label
from fsage.figures import Axis, Series, limits, series
from fsage.report.section import Data
from fsage.text.sizes import round_size

CAPACITY = "capacity AA, % of the empty target (nominal)"
FRAGMENTATION = "fragmentation BB, % of files deleted (nominal)"
FULLNESS = "real fullness, % of capacity in use"


def main_rows(data: Data) -> pd.DataFrame:
    """The rows of the study's largest file size; others are compared in a figure of their own."""
    sizes = data.table["file_size_bytes"]
    return data.table[sizes == sizes.max()] if sizes.notna().any() else data.table


def largest_transfer(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].max()]


def choose_transfers(rows: pd.DataFrame, mib: tuple[int, ...]) -> pd.DataFrame:
    """The published transfer sizes where at least two are there, else a few that span what is."""
    present = sorted(rows["transfer_size_bytes"].dropna().unique())
    chosen = [size for size in present if size in {size_mib << 20 for size_mib in mib}]
    return rows[rows["transfer_size_bytes"].isin(chosen if len(chosen) > 1 else spread(pd.Series(present), 3))]


def spread(values: pd.Series, count: int) -> list[object]:
    """At most `count` of the distinct values, the ends among them."""
    distinct = sorted(values.dropna().unique())
    if len(distinct) <= count:
        return distinct
    return [distinct[round(i * (len(distinct) - 1) / (count - 1))] for i in range(count)]


def by_measure(rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """(name, unit, rows) of each measure."""
    return [(*measure_label(m), rows[rows["measure"] == m]) for m in rows["measure"].unique()]


ROOM = 0.05
"""Above and below what an axis of factors shows."""


def factors(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are compared with a state: `median`, `low` and `high` are those of the factor to it."""
    rows = compared(rows, "value")
    held = [row.interval for row in rows["to_clean"]]
    return rows.assign(
        median=[row.value for row in rows["to_clean"]],
        low=[interval.low if interval else float("nan") for interval in held],
        high=[interval.high if interval else float("nan") for interval in held],
        samples=[[] for _ in held],
    )


def factor_axis(rows: pd.DataFrame) -> Axis:
    """For the rows of `factors`: all of them and 1 lie on it."""
    ends = [1.0, *rows["median"], *rows["low"].dropna(), *rows["high"].dropna()]
    return Axis("factor", (min(ends) - ROOM, max(ends) + ROOM))


def lines(rows: pd.DataFrame, x: str, labels: Mapping[Any, str], by: str) -> tuple[Series, ...]:
    """A series for each of `labels`, whose keys are values of the column `by`."""
    parts = [(label, rows[rows[by] == key]) for key, label in labels.items()]
    return tuple(series(label, part.assign(x=part[x])) for label, part in parts if len(part))


def levels(rows: pd.DataFrame, column: str) -> dict[float, str]:
    """The distinct values of a column as ticks of an axis."""
    return {value: f"{value:g}" for value in sorted(rows[column].dropna().unique())}


def axes_of(data: Data, state: str) -> tuple[float, float] | None:
    """Capacity filled and share of it deleted, percent, as the recipe declares them; None of several generations.

    `state`: a state's whole name, or what a study's headline calls it.
    """
    match data.nominal_of(state).get("generations"):
        case [{"capacity_percent": capacity, "fragmentation_percent": deleted}]:
            return float(capacity), float(deleted)
    return None


def transfers(rows: pd.DataFrame) -> str:
    return " and ".join(round_size(size) for size in sorted(rows["transfer_size_bytes"].dropna().unique()))


def note(rows: pd.DataFrame) -> str:
    """How many samples a point has, what its bar holds, and whether the axis is cut."""
    shown = ", ".join(f"{level:.2%}" for level in sorted(rows["level"].dropna().unique()))
    bars = f"bars hold the median at {shown}" if shown else "too few samples for an interval"
    cut = " The bandwidth axes do not begin at zero." if limits(rows)[0] else ""
    return f"n = {counts(rows)} a point; short strokes are samples; {bars}.{cut}"
