"""Numbers over a plane of two axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from fsage.figures import Place, Plane
from fsage.figures.style import (
    PAGE,
    PLAIN,
    Mark,
    Panel,
    Size,
    canvas,
    finish,
    head_of,
    ink_on,
    legend,
    name_axes,
    style,
)

SLOW_TO_FAST = sns.color_palette("blend:#2b5b8c,#a9c6de,#f6f9fb", as_cmap=True)
LOSS_TO_GAIN = sns.color_palette("blend:#b35806,#f8e3cf,#ffffff,#dcd7ea,#542788", as_cmap=True)
"""Colours of factors; the numbers in each cell tell them apart without colour."""
NOTHING_SHOWN = "0.86"
HEIGHT_INCHES = 5.2
CROWDED = 6
"""With more columns than this the numbers are smaller, and in a narrow figure without their ends."""
BORDER: dict[str, Any] = {"color": "0.15", "linewidth": 1.6, "solid_capstyle": "projecting"}
LEAST_REACH = 0.05
"""A factor's colours reach at least so far to both sides of 1."""
Squares: TypeAlias = Mapping[tuple[float, float], tuple[int, int]]
"""Column and row of each place, from the upper left."""


def draw_plane(plane: Plane, stamp: str, size: Size) -> Panel:
    """Dark is slow; of factors, brown is a loss, violet a gain, and grey where the interval holds 1 or there is none.

    Hatched: planned but not measured; with a number in it, predicted.
    """
    with style(size, **PLAIN):
        keys = _keys(plane)
        figure, axes = canvas(plane.title, stamp, size, HEIGHT_INCHES, head_inches=head_of([*keys], size))
        shown = (*plane.places, *plane.predicted)
        planned = {(drawn.x, drawn.y) for drawn in shown} | set(plane.missing)
        xs = sorted({x for x, _ in planned})
        ys = sorted({y for _, y in planned})
        squares = {(x, y): (column, len(ys) - 1 - row) for row, y in enumerate(ys) for column, x in enumerate(xs)}
        grid = pd.DataFrame(index=ys[::-1], columns=xs, dtype=float)
        for drawn in shown:
            grid.loc[drawn.y, drawn.x] = drawn.value
        colours: dict[str, Any] = {"cmap": _shades(plane)}
        if plane.factor:
            reach = max([LEAST_REACH, *(abs(drawn.value - 1) for drawn in shown)])
            colours = {"cmap": LOSS_TO_GAIN, "vmin": 1 - reach, "vmax": 1 + reach}
        sns.heatmap(grid, ax=axes, cbar=False, linewidths=1.5, **colours)
        _write(axes, plane, squares, size)
        small = size.points(7)
        for place, (column, row) in squares.items():
            if place in plane.missing:
                _cover(axes, (column, row), facecolor="white", edgecolor="0.55", hatch="////", linewidth=0)
            elif place not in planned:
                axes.text(column + 0.5, row + 0.5, plane.empty, ha="center", va="center", fontsize=small, color="0.35")
        _borders(axes, plane.places, squares)
        name_axes(axes, plane.x.label, plane.y.label, size)
        axes.set_xticklabels([f"{x:g}" for x in xs])
        axes.set_yticklabels([f"{y:g}" for y in ys[::-1]], rotation=0)
        axes.tick_params(length=0)
        handles = [Patch(edgecolor="0.5", linewidth=0.6, label=label, **fill) for label, fill in keys.items()]
        legend(axes, size, handles)
        return finish(figure, axes, plane, [Mark(*squares[drawn.x, drawn.y], drawn.says, 1, 1) for drawn in shown])


def _write(axes: Axes, plane: Plane, squares: Squares, size: Size) -> None:
    """The number of each place on its colour, which is grey for a factor of 1, and hatched for what is predicted."""
    mesh: Any = axes.collections[0]
    crowded = len({x for x, _ in squares}) > CROWDED
    letters = size.points(7 if crowded else 10)
    usual = max((drawn.n for drawn in plane.places), default=0)
    for drawn in (*plane.places, *plane.predicted):
        square = squares[drawn.x, drawn.y]
        below = mesh.cmap(mesh.norm(drawn.value))
        if drawn in plane.predicted:
            _cover(axes, square, fill=False, edgecolor="0.75", hatch="//", linewidth=0)
        elif plane.factor and _holds_one(drawn):
            _cover(axes, square, facecolor=NOTHING_SHOWN, edgecolor="white")
            below = NOTHING_SHOWN
        text = _text(drawn, usual, ends=not crowded or size.width >= PAGE.width)
        look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": letters, "linespacing": 1.25}
        axes.text(square[0] + 0.5, square[1] + 0.5, text, color=ink_on(below), **look)


def _shades(plane: Plane) -> Any:
    if plane.dark_high:
        return SLOW_TO_FAST.reversed()
    return SLOW_TO_FAST


def _keys(plane: Plane) -> dict[str, dict[str, Any]]:
    """What the colours and hatches mean, by words."""
    keys: dict[str, dict[str, Any]] = {}
    if plane.factor:
        keys |= {"below 1": {"facecolor": LOSS_TO_GAIN(0.1)}, "above 1": {"facecolor": LOSS_TO_GAIN(0.9)}}
        if any(map(_holds_one, plane.places)):
            keys["1 is within the interval, or there is none"] = {"facecolor": NOTHING_SHOWN}
    elif plane.places:
        keys |= {"least": {"facecolor": _shades(plane)(0.0)}, "most": {"facecolor": _shades(plane)(1.0)}}
    if plane.missing:
        keys["not measured"] = {"facecolor": "white", "hatch": "////"}
    return keys


def _holds_one(place: Place) -> bool:
    return not (place.low > 1 or place.high < 1)


def _borders(axes: Axes, places: Sequence[Place], squares: Squares) -> None:
    """A line between neighbours that measured different files, where any two places measured the same."""
    files = {squares[place.x, place.y]: place.file for place in places if place.file}
    if len(set(files.values())) == len(files):
        return
    for (column, row), name in files.items():
        if files.get((column + 1, row), name) != name:
            axes.plot([column + 1] * 2, [row, row + 1], **BORDER)
        if files.get((column, row + 1), name) != name:
            axes.plot([column, column + 1], [row + 1] * 2, **BORDER)


def _cover(axes: Axes, square: tuple[int, int], **look: Any) -> None:
    axes.add_patch(Rectangle(square, 1, 1, **look))


def _text(place: Place, usual: int, *, ends: bool) -> str:
    if place.text:
        return place.text
    words = [f"{place.value:.3f}" if place.value < 10 else f"{place.value:.0f}"]
    if ends and not math.isnan(place.least):
        words.append(f"{place.least:.0f}-{place.most:.0f}")
    if place.n == usual:
        how = []
    else:
        how = [f"n={place.n}"] if place.n else ["predicted"]
    return "\n".join([*words, *how])
