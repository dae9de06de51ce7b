"""Figures drawn: medians over a quantity or over levels, bars, run charts, strips of free space and traces.

All figures of a page are drawn by a process a processor: drawing is most of what a report takes.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

from fsage.base import GIB, TIB
from fsage.base.sizes import significant
from fsage.figures import Bars, Figure, Lines, Plane, Point, RunChart, Series, Strips, Trace
from fsage.figures.plane import draw_plane
from fsage.figures.style import (
    COLOURS,
    DASHES,
    HATCHES,
    MARKERS,
    PAGE,
    PLAIN,
    Mark,
    Panel,
    Size,
    canvas,
    finish,
    head_of,
    legend,
    name_axes,
    style,
)

DODGE = 0.012
"""How far series stand apart whose points at the same levels are joined, as a share of the axis."""
WIDEST = 0.06
BETWEEN = 0.6
"""And where they are not: at most so far, and all together over so much of the room between two levels."""
TICKS_CHARACTERS = 60
"""Most letters of all levels' names together that fit beside each other."""
FEW = 2
"""Names so few that they stand at the ends, where a long one would be cut: they are moved in."""
TREND_POINTS = 3
"""Two points are no trend: they are not joined."""


def draw_lines(lines: Lines, stamp: str, size: Size) -> Panel:
    """Medians with their intervals, each sample as a short stroke."""
    with style(size):
        labels = [line.label for line in lines.series] + [mark.label for mark in lines.levels if mark.label]
        ticks, family = _tick_names(lines.x.ticks, size)
        rows = max((1 + name.count("\n") for name in ticks.values()), default=1) if lines.x.label else 1
        figure, axes = canvas(lines.title, stamp, size, head_inches=head_of(labels, size), tick_rows=rows)
        if lines.y.log:
            axes.set_yscale("log", base=2)
        count = len(lines.series)
        usual = max((point.n or 0 for line in lines.series for point in line.points), default=0)
        marks: list[Mark] = []
        for number, line in enumerate(lines.series):
            apart = (number - (count - 1) / 2) * _dodge(lines, count)
            marks += _draw(axes, lines, line, number, apart, usual, size)
        for level in lines.levels:
            place = labels.index(level.of) if level.of else None
            look: dict[str, Any] = {"color": "0.3", "linewidth": 1}
            if place is not None:
                look = {"color": COLOURS[place % len(COLOURS)], "linewidth": 1.4, "linestyle": DASHES[1 + place % 7]}
            axes.axhline(level.value, zorder=1, label=level.label or None, **look)
        if lines.y.limits:
            axes.set_ylim(*lines.y.limits)
        if ticks:
            axes.set_xticks(list(ticks), list(ticks.values()))
        if lines.y.ticks:
            axes.set_yticks(list(lines.y.ticks), list(lines.y.ticks.values()))
            axes.minorticks_off()
        name_axes(axes, f"{lines.x.label}{family}", lines.y.label, size)
        axes.margins(x=0.06 if len(ticks) != FEW else 0.2)
        legend(axes, size)
        return finish(figure, axes, lines, marks)


def _dodge(lines: Lines, count: int) -> float:
    """How far series stand apart: a little where lines join their points, else so that none hides another."""
    ticks = lines.x.ticks
    if not ticks:
        return 0.0
    whole = max(ticks) - min(ticks)
    if any(line.joined for line in lines.series) or len(ticks) < 2:
        return DODGE * whole
    return min(WIDEST * whole, BETWEEN * whole / (len(ticks) - 1) / count)


def _tick_names(ticks: Mapping[float, str], size: Size) -> tuple[Mapping[float, str], str]:
    """Names too long to stand beside each other: in more rows, and without what all begin with, ' (blast.\u2026)'."""
    letters = size.fit(TICKS_CHARACTERS)
    if sum(max(map(len, name.split("\n"))) for name in ticks.values()) <= letters:
        return ticks, ""
    family = next(iter(ticks.values())).partition(".")[0] + "."
    if not all(name.startswith(family) for name in ticks.values()):
        family = ""
    room = max(1, letters // len(ticks) - 1)
    rows = {at: "\n".join(textwrap.wrap(name.removeprefix(family), room)) for at, name in ticks.items()}
    return rows, f" ({family}\u2026)" if family else ""


def _draw(axes: Axes, lines: Lines, line: Series, number: int, apart: float, usual: int, size: Size) -> list[Mark]:
    look: dict[str, Any] = {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)] if line.joined and len(line.points) >= TREND_POINTS else "none",
    }
    points = [replace(point, x=point.x + apart) for point in line.points]
    axes.plot([p.x for p in points], [p.y for p in points], label=line.label, linewidth=1.6, markersize=5.5, **look)
    known = [point for point in points if not math.isnan(point.low)]
    ends = [[point.y - point.low for point in known], [point.high - point.y for point in known]]
    xs = [point.x for point in known]
    ys = [point.y for point in known]
    strokes: list[float] = []
    samples: list[float] = []
    for point in points:
        strokes += [point.x] * len(point.samples)
        samples += point.samples
    colour = look["color"]
    axes.errorbar(xs, ys, yerr=ends, fmt="none", ecolor=colour, elinewidth=1.3, capsize=3)
    axes.plot(strokes, samples, "_", color=colour, alpha=0.7, markersize=9, markeredgewidth=0.9)
    marks = []
    for at, point in zip(points, line.points, strict=True):
        if point.n is not None and point.n != usual:
            axes.annotate(f"n={point.n:g}", (at.x, at.y), (4, 5), textcoords="offset points", fontsize=size.points(7))
        marks.append(Mark(at.x, at.y, _says(lines, line.label, point)))
    return marks


def _says(lines: Lines, label: str, point: Point) -> str:
    """'8 MiB at 40.00@264M: 312.4 (310.2 to 313.1), n = 5'."""
    if math.isnan(point.low):
        interval = ""
    else:
        interval = f" ({significant(point.low, 4)} to {significant(point.high, 4)})"
    count = "" if point.n is None else f", n = {point.n:g}"
    return f"{label} at {lines.name_of(point)}: {significant(point.y, 4)}{interval}{count}"


GROUP_WIDTH = 0.84
"""Width of a bar, as a share of the distance between two classes."""
LETTERS = 62
"""So many fit under the axis, in one row."""


def draw_bars(bars: Bars, stamp: str, size: Size) -> Panel:
    """Bars differ by hatch as well as by colour."""
    with style(size, **{"axes.axisbelow": True}):
        classes = bars.classes
        shares = bars.shares
        names, rows = names_of_bars(classes, size.fit(LETTERS))
        figure, axes = canvas(bars.title, stamp, size, tick_rows=rows)
        axes.grid(False, axis="x")
        width = GROUP_WIDTH / max(1, len(shares))
        marks = []
        for number, (label, heights) in enumerate(shares.items()):
            where = np.arange(len(classes)) + (number - (len(shares) - 1) / 2) * width
            look = {"color": COLOURS[number % len(COLOURS)], "hatch": HATCHES[number % len(HATCHES)]}
            axes.bar(where, heights, width, label=label, edgecolor="0.25", linewidth=0.6, **look)
            for x, name, height in zip(where, classes, heights, strict=True):
                marks.append(Mark(x - width / 2, 0, f"{label}, {name}: {height:.4g}", width, height))
        name_axes(axes, bars.x.label, bars.y.label, size)
        axes.set_xticks(list(names), list(names.values()), fontsize=size.points(8))
        legend(axes, size)
        return finish(figure, axes, bars, marks)


def names_of_bars(classes: Sequence[str], letters: int) -> tuple[dict[int, str], int]:
    """The names that have room, by place, in one row or in two by turns; and the rows. The last bar is always named."""
    pairs = [(len(name) + len(following)) / 2 + 1 for name, following in pairwise(classes)]
    apart = math.ceil(max(pairs, default=1) * len(classes) / letters)  # bars between two names of a row
    rows = min(2, apart)
    every = math.ceil(apart / rows)
    names = {}
    for turn, place in enumerate(range((len(classes) - 1) % every, len(classes), every)):
        names[place] = "\n" * (turn % rows) + classes[place]
    return names, rows


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
STRIP_INCHES = 0.3


def draw_strips(of: Strips, stamp: str, size: Size) -> Panel:
    """From the device's first byte to its last."""
    strips = of.strips
    unit_bytes, unit = (TIB, "TiB") if of.device_bytes > 4 * TIB else (GIB, "GiB")
    with style(size, **PLAIN):
        height = STRIP_INCHES * len(strips) + 1.25
        longest = max(map(len, strips))
        figure, axes = canvas(of.title, stamp, size, height, left_inches=0.31 + 0.081 * longest, head_inches=0.36)
        for row, shares in enumerate(strips.values()):
            # One image a strip: scaling it up may blend neighbouring bins, never neighbouring states.
            box = (0, of.device_bytes / unit_bytes, row + 0.42, row - 0.42)
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
        axes.set(xlabel=f"place, {unit} (dark: in use)", ylim=(len(strips) - 0.5, -0.5))
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


DRAWN_BY: dict[type, Callable[[Any, str, Size], Panel]] = {
    Bars: draw_bars,
    RunChart: draw_run_chart,
    Lines: draw_lines,
    Plane: draw_plane,
    Strips: draw_strips,
    Trace: draw_trace,
}


def draw(figure: Figure, stamp: str, size: Size = PAGE) -> Panel:
    """One figure with its stamp inside."""
    return DRAWN_BY[type(figure)](figure, _stamped(figure, stamp), size)


def caption(figure: Figure, stamp: str) -> str:
    """What stands in a figure beside what it shows: its title, and on what the numbers were taken."""
    return f"{figure.title}. {_stamped(figure, stamp)}."


def _stamped(figure: Figure, stamp: str) -> str:
    return " \u00b7 ".join(filter(None, [stamp, figure.note]))


def draw_all(
    figures: Sequence[Figure], stamp: str, size: Size = PAGE, progress: Callable[[int], None] = lambda count: None
) -> list[Panel]:
    """Each figure drawn, in their order; `progress` is told how many there are. Raises what drawing one raises."""
    processes = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        panels = []
        for panel in pool.map(partial(draw, stamp=stamp, size=size), figures):
            panels.append(panel)
            progress(len(panels))
        return panels
