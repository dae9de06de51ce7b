"""Shares by class, a bar for each of a few states."""

from __future__ import annotations

import numpy as np

from fsage.figures.panel import Mark, Panel, finish
from fsage.figures.style import COLOURS, HATCHES, Size, canvas, legend, name_axes, style
from fsage.figures.values import Bars

GROUP_WIDTH = 0.84
"""Of the distance between two classes."""
LETTERS = 62
"""So many fit under the axis; with longer names only some are written."""


def draw_bars(bars: Bars, stamp: str, size: Size) -> Panel:
    """Bars differ by hatch as well as by colour."""
    with style(size, **{"axes.axisbelow": True}):
        figure, axes = canvas(bars.title, stamp, size)
        axes.grid(False, axis="x")
        classes, shares = bars.classes, bars.shares
        width = GROUP_WIDTH / max(1, len(shares))
        marks = []
        for number, (label, heights) in enumerate(shares.items()):
            where = np.arange(len(classes)) + (number - (len(shares) - 1) / 2) * width
            look = {"color": COLOURS[number % len(COLOURS)], "hatch": HATCHES[number % len(HATCHES)]}
            axes.bar(where, heights, width, label=label, edgecolor="0.25", linewidth=0.6, **look)
            marks += [
                Mark(x - width / 2, 0, f"{label}, {name}: {height:.4g}", width, height)
                for x, name, height in zip(where, classes, heights, strict=True)
            ]
        name_axes(axes, bars.x.label, bars.y.label, size)
        every = 1 + sum(len(name) + 2 for name in classes) // size.fit(LETTERS)
        axes.set_xticks(range(0, len(classes), every), classes[::every], fontsize=size.points(8))
        legend(axes, size)
        return finish(figure, axes, bars, marks)
