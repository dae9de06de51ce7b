"""Medians with their intervals over a quantity or over levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes

from fsage.figures.panel import Mark, Panel, finish
from fsage.figures.style import COLOURS, DASHES, MARKERS, STYLE, canvas, head_of, legend

DODGE = 0.012
"""How far lines stand apart that have points at the same levels, as a share of the axis."""

TICKS_CHARACTERS = 60
"""Of all levels' names together, so many fit beside each other."""


@dataclass(frozen=True)
class Line:
    """One line of a panel. `points` has x, median, low, high (NaN: no interval), n (NaN: none to say) and samples;
    `state`, if there, is what a point is called under the pointer, else x is.

    `joined`: whether its points are steps of one thing, and a line between them means something.
    """

    label: str
    points: pd.DataFrame
    joined: bool = True


def line_panel(
    title: str,
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    stamp: str,
    *,
    y_limits: tuple[float, float],
    reference: float | None = None,
    band: tuple[float, float, str] | None = None,
    ticks: Mapping[float, str] | None = None,
) -> Panel:
    """Medians with their intervals, each sample as a short stroke.

    `reference` draws a level to compare with, `band` (low, high, label) a range of y. `ticks` are the levels of x and
    what they are called: lines then stand side by side, so that none is hidden.
    """
    with mpl.rc_context(STYLE):
        labels = [line.label for line in lines] + ([band[2]] if band else [])
        figure, axes = canvas(title, stamp, head_inches=head_of(labels))
        usual = max((n for line in lines for n in line.points["n"].dropna()), default=0)
        if reference is not None:
            axes.axhline(reference, color="0.3", linewidth=1, zorder=1)
        marks: list[Mark] = []
        for number, line in enumerate(lines):
            points = line.points.sort_values("x", kind="stable")
            where = points["x"].astype(float)
            if ticks and len(lines) > 1:
                where = where + (number - (len(lines) - 1) / 2) * DODGE * (max(ticks) - min(ticks))
            if "state" not in points:
                points = points.assign(state=[(ticks or {}).get(x, f"{x:.4g}") for x in points["x"]])
            marks += _draw(axes, Line(line.label, points.assign(x=where), line.joined), number, usual)
        if band:
            axes.axhspan(band[0], band[1], color="0.92", zorder=0, label=band[2])
        axes.set(xlabel=x_label, ylabel=y_label, ylim=y_limits)
        if ticks:
            family, names = _short(list(ticks.values()))
            axes.set_xticks(list(ticks), names)
            axes.set_xlabel(f"{x_label} ({family}\u2026)" if family else x_label)
        axes.margins(x=0.06)
        legend(axes)
        return finish(figure, axes, title, marks)


def limits(points: pd.DataFrame) -> tuple[float, float]:
    """A y axis for all of `points`, so that panels can share it.

    From zero if the lowest is below half of the highest, else from just below the lowest; it spans at least
    10%, so that noise is not blown up until it looks like an effect.
    """
    ends = [*points["low"].dropna(), *points["high"].dropna(), *points["median"].dropna()]
    ends += [sample for samples in points["samples"] for sample in samples]
    low, high = min(ends), max(ends)
    room = max(high - low, 0.1 * high) * 0.12
    low = min(low, 0.9 * high)
    return (0.0 if low < 0.5 * high else low - room, high + room)


def limits_with_zero(points: pd.DataFrame, least: float) -> tuple[float, float]:
    """A y axis for all of `points` that holds zero and spans at least `least`."""
    ends = [0.0, *points["low"].dropna(), *points["high"].dropna(), *points["median"].dropna()]
    low, high = min(ends), max(ends)
    room = 0.08 * max(high - low, least)
    return low - room, max(high, low + least) + room


def _short(names: list[str]) -> tuple[str, list[str]]:
    """Names that are too long to stand beside each other without what all begin with, such as 'blast.', and that."""
    family = names[0].partition(".")[0] + "."
    if sum(map(len, names)) <= TICKS_CHARACTERS or not all(name.startswith(family) for name in names):
        return "", names
    return family, [name.removeprefix(family) for name in names]


def _draw(axes: Axes, line: Line, number: int, usual: float) -> list[Mark]:
    points = line.points
    look: dict[str, Any] = {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)] if line.joined else "none",
    }
    held = points["low"].notna()
    spread = [(points["median"] - points["low"])[held], (points["high"] - points["median"])[held]]
    axes.plot(points["x"], points["median"], label=line.label, linewidth=1.6, markersize=5.5, **look)
    axes.errorbar(
        points["x"][held],
        points["median"][held],
        yerr=[one.astype(float) for one in spread],
        fmt="none",
        ecolor=look["color"],
        elinewidth=1.3,
        capsize=3,
    )
    strokes = points[["x", "samples"]].explode("samples").dropna()
    axes.plot(
        strokes["x"].astype(float),
        strokes["samples"].astype(float),
        "_",
        color=look["color"],
        alpha=0.7,
        markersize=9,
        markeredgewidth=0.9,
    )
    for point in points.itertuples():
        if pd.notna(point.n) and point.n != usual:
            axes.annotate(f"n={point.n:g}", (point.x, point.median), (4, 5), textcoords="offset points", fontsize=7)
    return [Mark(point.x, point.median, _said(line.label, point)) for point in points.itertuples()]


def _said(label: str, point: Any) -> str:
    """'8 MiB at 40.00@264M: 312.4 (310.2 to 313.1), n = 5'."""
    held = "" if pd.isna(point.low) else f" ({point.low:.4g} to {point.high:.4g})"
    count = "" if pd.isna(point.n) else f", n = {point.n:g}"
    return f"{label} at {point.state}: {point.median:.4g}{held}{count}"
