"""Which groups a figure shows, and what its lines, axes and points are called; the AA x BB plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fsage.api.model import counted, round_size, significant
from fsage.api.report import Data, Section, figures, groups

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
    present = rows["transfer_size_bytes"].dropna()
    chosen = set(present) & {size_mib << 20 for size_mib in mib}
    return rows[rows["transfer_size_bytes"].isin(chosen if len(chosen) > 1 else spread(present, 3))]


def spread(values: pd.Series, count: int) -> list[object]:
    """At most `count` of the distinct values, the ends among them."""
    distinct = sorted(values.dropna().unique())
    if len(distinct) <= count:
        return distinct
    return [distinct[round(i * (len(distinct) - 1) / (count - 1))] for i in range(count)]


def by_measure(rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """(name, unit, rows) of each measure."""
    return [(*groups.Measure.of(m), rows[rows["measure"] == m]) for m in rows["measure"].unique()]


def levels_axis(rows: pd.DataFrame, column: str, label: str) -> figures.Axis:
    """An axis with the distinct values of a column as ticks."""
    return figures.Axis(label, ticks={value: f"{value:g}" for value in sorted(rows[column].dropna().unique())})


def axes_of(data: Data, state: str) -> tuple[float, float] | None:
    """Capacity filled and share of it deleted, percent, as the recipe declares them; None of several generations.

    `state`: a state's whole name, or what a study's headline calls it.
    """
    match data.nominal_of(state).get("generations"):
        case [{"capacity_percent": capacity, "fragmentation_percent": deleted}]:
            return float(capacity), float(deleted)
    return None


def planned_axes(data: Data) -> list[tuple[float, float]]:
    """Those of the planned states."""
    axes = [axes_of(data, name) for name in data.planned]
    return [of_state for of_state in axes if of_state]


def transfers(rows: pd.DataFrame) -> str:
    return " and ".join(map(round_size, sorted(rows["transfer_size_bytes"].dropna().unique())))


def note(rows: pd.DataFrame) -> str:
    """How many samples a point has, what its bar holds, and whether the axis is cut."""
    shown = ", ".join(f"{level:.2%}" for level in sorted(rows["level"].dropna().unique()))
    if shown:
        bars = f"and bars hold the median at {shown}"
    else:
        bars = "too few for an interval"
    axis = figures.Axis.around("", rows)
    if axis.limits and axis.limits[0]:
        cut = " The bandwidth axes do not begin at zero."
    else:
        cut = ""
    return f"Each point has n = {groups.counts(rows)}. Short strokes are samples, {bars}.{cut}"


FEW = 8
"""A plane of so few states says what the answer's figure does, so it is folded."""


def plane(data: Data) -> Section | None:
    """The whole plane at the largest transfer, one panel a measure."""
    rows = places(largest_transfer(main_rows(data)))
    if rows["x"].nunique() < 2 or rows["y"].nunique() < 2:
        return None
    planned = dict.fromkeys(planned_axes(data))
    plots: list[figures.Figure] = []
    files = measured_files(data.at_largest_transfer)
    for name, unit, part in by_measure(rows):
        drawn = set(zip(part["x"], part["y"], strict=True))
        guessed = predicted(data.frame, part["measure"].iloc[0], unit, drawn)
        drawn |= {(guess.x, guess.y) for guess in guessed}
        plots.append(
            figures.Plane(
                f"{name.capitalize()} bandwidth in {unit}, {transfers(rows)} transfers",
                tuple(place(row, says(row, unit), files.get(row["state"], "")) for row in part.to_dict("records")),
                figures.Axis(CAPACITY),
                figures.Axis(FRAGMENTATION),
                tuple(axes for axes in planned if axes not in drawn),
                predicted=guessed,
            )
        )
    text = (
        f"Median and, below it, the smallest and the largest; n = {groups.counts(rows)}. {_same_files(rows, files)}"
        "Dark is slow; hatched: planned, and has no valid sample; a hatched number was not measured: the others "
        "predict it. Within a column, more deleted files mean less used space. Hover for the interval, real fullness "
        "and loss against the clean state."
    )
    if len(rows[["x", "y"]].drop_duplicates()) > FEW:
        front = 1
    else:
        front = 0
    return Section("The whole plane", text, plots, wide=True, front=front)


def measured_files(rows: pd.DataFrame) -> dict[str, str]:
    """State -> the places of the files that were measured in it, as a key; the same key is the same file."""
    where = ["measured_extents", "measured_mean_position", "measured_position_sd"]
    known = rows.dropna(subset=where[:2])
    texts = known[where[0]].astype("str").str.cat([known[name].astype("str") for name in where[1:]], sep=" ", na_rep="")
    return {str(state): "; ".join(sorted(set(part))) for state, part in texts.groupby(known["state"])}


def _same_files(rows: pd.DataFrame, files: Mapping[str, str]) -> str:
    """How many different files the cells measured, where some are alike."""
    states = [state for state in rows["state"].unique() if state in files]
    different = len({files[state] for state in states})
    if different == len(states):
        return ""
    of_cells = f"{counted(different, 'different file')} in {counted(len(states), 'cell')}"
    return f"Cells within one border measured the same file: {of_cells}. "


def predicted(
    frame: pd.DataFrame, measure: str, unit: str, drawn: set[tuple[float, float]]
) -> tuple[figures.Place, ...]:
    """Predictions of a run within a budget for places that it did not measure, at the largest transfer."""
    column = f"{measure}_predicted"
    if column not in frame:
        return ()
    rows = largest_transfer(frame[frame["kind"] == "planned"])
    rows = rows[(rows["status"] == "skipped") & rows[column].notna()]
    by_place = {}
    for row in rows.to_dict("records"):
        x = row["capacity_percent"]
        y = row["fragmentation_percent"]
        value = row[column]
        low = row[f"{column}_low"]
        high = row[f"{column}_high"]
        ends = [significant(number, 4) for number in (value, low, high)]
        says = f"{row['state']}: predicted {ends[0]} {unit}, {ends[1]} to {ends[2]} at 95%, not measured"
        if (x, y) not in drawn:
            by_place[x, y] = figures.Place(x, y, value, 0, low, high, says=says)
    return tuple(by_place.values())


def places(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with x (AA) and y (BB), one for each place and measure: of several groups the one with most samples."""
    rows = rows.rename(columns={"capacity_percent": "x", "fragmentation_percent": "y"})
    rows = rows.sort_values("n", kind="stable", ascending=False)
    return rows.drop_duplicates(["x", "y", "measure"]).sort_index()


def place(row: dict[str, Any], says: str, file: str = "") -> figures.Place:
    """A row as it stands on a plane."""
    ends = {}
    if len(row["samples"]) > 1:
        ends = {"least": min(row["samples"]), "most": max(row["samples"])}
    x, y, value, n, low, high = (row[name] for name in ("x", "y", "median", "n", "low", "high"))
    return figures.Place(x, y, value, n, low, high, **ends, says=says, file=file)


def says(row: dict[str, Any], unit: str) -> str:
    """What a place says under the pointer."""
    parts = [f"{row['state']}: {significant(row['median'], 4)} {unit}"]
    if pd.notna(row["low"]):
        parts.append(f"{significant(row['low'], 4)} to {significant(row['high'], 4)} at {row['level']:.2%}")
    parts += [row["units"].over.strip(), f"real fullness {row['real_fullness_percent']:.1f}%"]
    ratio = row["to_clean"]
    if ratio is not None and ratio.loss_percent is not None:
        parts.append(f"loss against {row['clean']} {ratio.loss_percent:.1f}%")
    return ", ".join(parts)
