"""Which groups a figure shows, and what their lines, axes and points are called."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import counts, measure_label
from fsage.figures import Axis, ends_of, limits
from fsage.report.parts import Data
from fsage.text.sizes import round_size

CAPACITY = "capacity AA, % of the empty target (nominal)"
FRAGMENTATION = "fragmentation BB, % of files deleted (nominal)"
FULLNESS = "real fullness, % of capacity in use"
RELATIVE = "{} speed relative to unfragmented at equal fullness"


def main_rows(data: Data) -> pd.DataFrame:
    """The rows of the study's largest file size; others are compared in a figure of their own."""
    sizes = data.table["file_size_bytes"]
    if sizes.notna().any():
        return data.table[sizes == sizes.max()]
    return data.table


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


def factor_axis(rows: pd.DataFrame) -> Axis:
    """For rows that are factors: all of them and 1 lie on it."""
    ends = [1.0, *ends_of(rows)]
    return Axis("factor", (min(ends) - ROOM, max(ends) + ROOM))


def levels_axis(rows: pd.DataFrame, column: str, label: str) -> Axis:
    """An axis with the distinct values of a column as ticks."""
    return Axis(label, ticks={value: f"{value:g}" for value in sorted(rows[column].dropna().unique())})


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
    if shown:
        bars = f"and bars hold the median at {shown}"
    else:
        bars = "too few for an interval"
    if limits(rows)[0]:
        cut = " The bandwidth axes do not begin at zero."
    else:
        cut = ""
    return f"Each point has n = {counts(rows)}. Short strokes are samples, {bars}.{cut}"
