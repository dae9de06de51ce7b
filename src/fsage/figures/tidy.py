"""Figures from tidy tables: a row a point. Whatever a report draws of medians over something is made here.

Columns: `median`, the point's value; `low`, `high`, `n` and `samples`, where there are any (NaN: not known); `state`,
the point's name. Where it lies, and to which series it belongs, say columns that the caller names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from fsage.figures.values import Axis, Band, Bars, Level, Lines, Point, Series
from fsage.text.sizes import round_size


def lines(
    title: str,
    rows: pd.DataFrame,
    by: str,
    x: Axis,
    y: Axis,
    *,
    at: str = "x",
    labels: Mapping[Any, str] | None = None,
    joined: bool = True,
    levels: Iterable[Level] = (),
    band: Band | None = None,
    note: str = "",
) -> Lines:
    """A series for each value of the column `by`, its points in the order of the column `at`.

    `labels`: which values, in this order, and what they are called; none: all, as they come.
    """
    if labels is None:
        labels = {value: str(value) for value in rows[by].unique()}
    parts = [(label, rows[rows[by] == value]) for value, label in labels.items()]
    drawn = tuple(_series(label, part, at, joined) for label, part in parts if len(part))
    return Lines(title, drawn, x, y, tuple(levels), band, note=note)


def placed(
    rows: pd.DataFrame, column: str, order: Iterable[Any] | None = None
) -> tuple[pd.DataFrame, dict[float, str]]:
    """The rows with `x`, a place for each value of a column, in `order` or as they come; and these as ticks."""
    places = {
        value: float(place) for place, value in enumerate(dict.fromkeys(rows[column] if order is None else order))
    }
    return rows.assign(x=rows[column].map(places)), {place: str(value) for value, place in places.items()}


def shares(
    title: str, by_label: Mapping[str, Mapping[Any, float]], classes: Mapping[Any, str], x: Axis, y: Axis
) -> Bars:
    """Each class's share of all amounts of a label, in percent; `classes`: by their keys what they are called."""
    percent = {
        label: tuple(100 * amounts.get(key, 0) / sum(amounts.values()) for key in classes)
        for label, amounts in by_label.items()
    }
    return Bars(title, tuple(classes.values()), percent, x, y)


def powers_of_two(by_label: Mapping[str, Iterable[int]]) -> dict[int, str]:
    """Size classes from the least to the largest key, and what they are called."""
    seen = [size for sizes in by_label.values() for size in sizes]
    powers = range(min(seen).bit_length() - 1, max(seen).bit_length())
    return {1 << power: round_size(1 << power) for power in powers}


def _series(label: str, rows: pd.DataFrame, at: str, joined: bool) -> Series:
    points = tuple(
        Point(
            float(row[at]),
            float(row["median"]),
            _known(row.get("low")),
            _known(row.get("high")),
            None if (n := _known(row.get("n"))) is None else int(n),
            tuple(row.get("samples", ())),
            str(row.get("state", "")),
        )
        for row in rows.sort_values(at, kind="stable").to_dict("records")
        if not math.isnan(row["median"])
    )
    return Series(label, points, joined)


def _known(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return float(value)


def limits(points: pd.DataFrame) -> tuple[float, float]:
    """A y axis for all of `points`, so that figures can share it.

    From zero if the lowest is below half of the highest, else from just below the lowest; it spans at least
    10%, so that noise is not blown up until it looks like an effect.
    """
    ends = ends_of(points)
    low = min(ends)
    high = max(ends)
    room = max(high - low, 0.1 * high) * 0.12
    low = min(low, 0.9 * high)
    return (0.0 if low < 0.5 * high else low - room, high + room)


def limits_from_zero(points: pd.DataFrame, room: float = 0.08, least: float = 0.0) -> tuple[float, float]:
    """A y axis from zero for what is compared in size; `room` above, of the highest value or of `least`."""
    return 0.0, max(least, *ends_of(points)) * (1 + room)


def limits_with_zero(points: pd.DataFrame, least: float) -> tuple[float, float]:
    """A y axis for all of `points` that holds zero and spans at least `least`; below zero only where a value is."""
    ends = [0.0, *ends_of(points.drop(columns="samples", errors="ignore"))]
    low = min(ends)
    high = max(ends)
    room = 0.08 * max(high - low, least)
    return (low - room if low < 0 else 0.0), max(high, low + least) + room


def ends_of(points: pd.DataFrame) -> list[float]:
    """All values that lie on the axis of `points`: medians, ends of intervals, samples."""
    ends = [value for name in ("median", "low", "high") if name in points for value in points[name].dropna()]
    return ends + [sample for samples in points.get("samples", ()) for sample in samples]
