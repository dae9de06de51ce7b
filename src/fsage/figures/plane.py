"""Numbers over a plane of two axes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from fsage.figures.panel import Mark, Panel, finish
from fsage.figures.style import STYLE, canvas

SLOW_TO_FAST = sns.color_palette("blend:#2b5b8c,#a9c6de,#f6f9fb", as_cmap=True)
INCHES = (5.6, 5.2)
CROWDED = 6
"""With more columns than this the numbers are smaller."""


def plane_panel(
    title: str,
    table: pd.DataFrame,
    missing: pd.DataFrame,
    x_label: str,
    y_label: str,
    stamp: str,
    *,
    empty: str = "not planned",
) -> Panel:
    """`table` has x, y, median, cov, n and `says` (under the pointer), a row a place; `missing` x, y to be expected.

    Dark is slow. Hatched: planned but not measured; `empty` is why the other places are.
    """
    with mpl.rc_context(STYLE | {"axes.grid": False, "axes.spines.left": False, "axes.spines.bottom": False}):
        figure, axes = canvas(title, stamp, INCHES, head_inches=0.42)
        places = pd.concat([table[["x", "y"]], missing[["x", "y"]]])
        xs, ys = (sorted(places[axis].unique()) for axis in "xy")
        grid = table.pivot(index="y", columns="x", values="median").reindex(index=ys[::-1], columns=xs)
        words = pd.DataFrame("", index=grid.index, columns=grid.columns)
        usual = int(table["n"].max()) if len(table) else 0
        for point in table.itertuples():
            words.loc[point.y, point.x] = _cell_text(point, usual)
        sns.heatmap(
            grid.astype(float),
            ax=axes,
            annot=words,
            fmt="",
            cmap=SLOW_TO_FAST,
            cbar=False,
            linewidths=1.5,
            annot_kws={"size": 8 if len(xs) > CROWDED else 10, "linespacing": 1.25},
        )
        marks = [
            Mark(xs.index(point.x), len(ys) - 1 - ys.index(point.y), point.says, 1, 1) for point in table.itertuples()
        ]
        _draw_gaps(axes, xs, ys, places, missing, empty)
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.set_xticklabels([f"{x:g}" for x in xs])
        axes.set_yticklabels([f"{y:g}" for y in ys[::-1]], rotation=0)
        axes.tick_params(length=0)
        return finish(figure, axes, title, marks)


def _draw_gaps(
    axes: Axes, xs: list[float], ys: list[float], places: pd.DataFrame, missing: pd.DataFrame, empty: str
) -> None:
    """Hatch what is missing, and say `empty` where nothing was to be expected."""
    planned = {(point.x, point.y) for point in places.itertuples()}
    for column, row, place in _squares(xs, ys):
        if place not in planned:
            axes.text(column + 0.5, row + 0.5, empty, ha="center", va="center", fontsize=7, color="0.5")
    lacking = {(point.x, point.y) for point in missing.itertuples()}
    for column, row, place in _squares(xs, ys):
        if place in lacking:
            axes.add_patch(
                Rectangle((column, row), 1, 1, facecolor="white", edgecolor="0.55", hatch="////", linewidth=0)
            )


def _squares(xs: list[float], ys: list[float]) -> Iterator[tuple[int, int, tuple[float, float]]]:
    """Column, row from the top, and what stands there."""
    return ((column, len(ys) - 1 - number, (x, y)) for number, y in enumerate(ys) for column, x in enumerate(xs))


def _cell_text(point: Any, usual: int) -> str:
    words = [f"{point.median:.3f}" if point.median < 10 else f"{point.median:.0f}"]
    words.append("" if pd.isna(point.cov) else f"± {point.cov * 100:.1f}%")
    return "\n".join([*filter(None, words), *([f"n={point.n}"] if point.n != usual else [])])
