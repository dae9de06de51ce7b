"""Bars, run charts, strips of free space and traces, drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import seaborn as sns

from fsage.figures.panel import Mark, Panel, finish
from fsage.figures.style import COLOURS, HATCHES, PLAIN, Size, canvas, legend, name_axes, style
from fsage.figures.values import Bars, RunChart, Strips, Trace

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


SAMPLE_LOOKS: dict[str, dict[str, Any]] = {
    "planned": {"marker": ".", "color": "0.65", "markersize": 4},
    "sentinel": {"marker": "D", "color": COLOURS[3], "markersize": 5, "markeredgecolor": "black"},
    "reference before": {"marker": "o", "color": COLOURS[0], "markersize": 4.5},
    "reference after": {"marker": "s", "color": COLOURS[1], "markersize": 4.5, "markeredgecolor": "black"},
}
"""What tells of drift, by the kind of a cloud."""


def draw_run_chart(chart: RunChart, stamp: str, size: Size) -> Panel:
    """The later clouds are drawn over the earlier."""
    with style(size):
        figure, axes = canvas(chart.title, stamp, size)
        axes.axhline(1, color="0.3", linewidth=1, zorder=1)
        for cloud in chart.clouds:
            label = f"{cloud.kind} (n = {len(cloud.xs)})"
            axes.plot(
                cloud.xs, cloud.ys, label=label, linestyle="none", markeredgewidth=0.5, **SAMPLE_LOOKS[cloud.kind]
            )
        name_axes(axes, chart.x.label, chart.y.label, size)
        legend(axes, size)
        return finish(figure, axes, chart)


USED_TO_FREE = sns.color_palette("blend:#1f4e79,#9dc0dc,#ffffff", as_cmap=True)
GIB = 1 << 30
STRIP_INCHES = 0.3


def draw_strips(of: Strips, stamp: str, size: Size) -> Panel:
    """From the device's first byte to its last."""
    strips = of.strips
    with style(size, **PLAIN):
        height = STRIP_INCHES * len(strips) + 1.25
        longest = max(map(len, strips))
        figure, axes = canvas(of.title, stamp, size, height, left_inches=0.31 + 0.081 * longest, head_inches=0.36)
        for row, shares in enumerate(strips.values()):
            # One image a strip: scaling it up may blend neighbouring bins, never neighbouring states.
            box = (0, of.device_bytes / GIB, row + 0.42, row - 0.42)
            axes.imshow(
                np.array([shares], dtype=float),
                cmap=USED_TO_FREE,
                vmin=0,
                vmax=1,
                extent=box,
                aspect="auto",
                interpolation="none",
            )
            axes.plot([0, box[1], box[1], 0, 0], [box[2], box[2], box[3], box[3], box[2]], color="0.5", linewidth=0.6)
        axes.set(xlabel="place, GiB (dark: in use)", ylim=(len(strips) - 0.5, -0.5))
        axes.set_yticks(range(len(strips)), list(strips), fontsize=size.points(9))
        axes.tick_params(axis="y", length=0)
        return finish(figure, axes, of)


VECTOR_AT_MOST = 3000
"""More requests than this are drawn as an image within the figure: as shapes they would weigh megabytes."""
REQUEST_LOOKS: dict[str, dict[str, Any]] = {
    "reads": {"marker": "o", "markerfacecolor": "none", "color": COLOURS[0]},
    "writes": {"marker": "x", "color": COLOURS[3]},
    "small ones": {"marker": ".", "color": "0.45"},
}


def draw_trace(trace: Trace, stamp: str, size: Size) -> Panel:
    """Each mark is a request."""
    with style(size):
        figure, axes = canvas(trace.title, stamp, size)
        image = sum(len(cloud.xs) for cloud in trace.clouds) > VECTOR_AT_MOST
        for cloud in trace.clouds:
            if cloud.xs:
                name = f"{cloud.kind} (n = {len(cloud.xs)})"
                places = [place / GIB for place in cloud.ys]
                look = {"markersize": 3.6, "markeredgewidth": 0.9, "linestyle": "none", **REQUEST_LOOKS[cloud.kind]}
                axes.plot(cloud.xs, places, label=name, rasterized=image, **look)
        name_axes(axes, trace.x.label, trace.y.label, size)
        if trace.x.limits and trace.y.limits:
            axes.set_xlim(*trace.x.limits)
            axes.set_ylim(*(end / GIB for end in trace.y.limits))
        legend(axes, size)
        return finish(figure, axes, trace)
