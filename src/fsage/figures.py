"""Drawing: tables in, SVG text out, the same bytes each time. What is drawn for which recipe: report/paf.py.

Every panel is small enough to be read on a phone, tells its lines apart by marker and dash as well as by
colour, and carries the stamp: on which (modelled) device its numbers were taken.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

STYLE = {
    **sns.axes_style("ticks"),
    "font.family": "DejaVu Sans",  # comes with Matplotlib: the same glyphs everywhere
    "font.size": 10,
    "axes.labelsize": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.edgecolor": "0.35",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "0.9",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
    "hatch.color": "0.55",
    "svg.fonttype": "path",
    "svg.hashsalt": "fsage",
}
COLOURS = sns.color_palette("colorblind", 8)
MARKERS = "osD^vPX*"
DASHES = [
    "-",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1)),
    (0, (8, 3)),
    (0, (2, 3)),
    "-",
]
SLOW_TO_FAST = sns.color_palette("blend:#2b5b8c,#a9c6de,#f6f9fb", as_cmap=True)
PANEL_INCHES = (5.2, 3.9)


@dataclass(frozen=True)
class Line:
    """One line of a panel. `points` has x, median, low, high (NaN: no interval), n and samples."""

    label: str
    points: pd.DataFrame


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
    ticks: Sequence[float] | None = None,
) -> str:
    """Medians with their intervals, each sample as a short stroke.

    `reference` draws a level to compare with, `band` (low, high, label) a range of y.
    """
    with mpl.rc_context(STYLE):
        figure, axes = _panel(title, stamp)
        usual = _usual_n(lines)
        if reference is not None:
            axes.axhline(reference, color="0.3", linewidth=1, zorder=1)
        for number, line in enumerate(lines):
            points = line.points.sort_values("x")
            if ticks is not None and len(lines) > 1:  # levels, not quantities: side by side, so that none is hidden
                points["x"] += (number - (len(lines) - 1) / 2) * 0.012 * (max(ticks) - min(ticks))
            _draw(axes, Line(line.label, points), number, usual)
        if band:
            axes.axhspan(band[0], band[1], color="0.92", zorder=0, label=band[2])
        axes.set(xlabel=x_label, ylabel=y_label, ylim=y_limits)
        if ticks is not None:
            axes.set_xticks(list(ticks))
        axes.margins(x=0.06)
        _legend(axes)
        return _svg(figure, title)


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


def plane_panel(title: str, table: pd.DataFrame, missing: pd.DataFrame, x_label: str, y_label: str, stamp: str) -> str:
    """Numbers over a plane: `table` has x, y, median, cov, n; `missing` the x, y that should be there.

    Dark is slow. Hatched: planned but not measured; empty: not planned.
    """
    with mpl.rc_context(STYLE | {"axes.grid": False, "axes.spines.left": False, "axes.spines.bottom": False}):
        figure, axes = _panel(title, stamp, (5.6, 5.2), top=0.92)
        places = pd.concat([table[["x", "y"]], missing[["x", "y"]]])
        xs, ys = (sorted(places[axis].unique()) for axis in "xy")
        usual = int(table["n"].max()) if len(table) else 0
        grid = table.pivot(index="y", columns="x", values="median").reindex(index=ys[::-1], columns=xs)
        words = pd.DataFrame("", index=grid.index, columns=grid.columns)
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
            annot_kws={"size": 8 if len(xs) > 6 else 10, "linespacing": 1.25},
        )
        planned = {(point.x, point.y) for point in places.itertuples()}
        for column, row in ((c, r) for c in range(len(xs)) for r in range(len(ys))):
            if (xs[column], ys[len(ys) - 1 - row]) not in planned:
                axes.text(column + 0.5, row + 0.5, "not planned", ha="center", va="center", fontsize=7, color="0.5")
        for point in missing.itertuples():
            corner = (xs.index(point.x), len(ys) - 1 - ys.index(point.y))
            axes.add_patch(Rectangle(corner, 1, 1, facecolor="white", edgecolor="0.55", hatch="////", linewidth=0))
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.set_xticklabels([f"{x:g}" for x in xs])
        axes.set_yticklabels([f"{y:g}" for y in ys[::-1]], rotation=0)
        axes.tick_params(length=0)
        return _svg(figure, title)


def drift_panel(title: str, points: pd.DataFrame, x_label: str, y_label: str, stamp: str) -> str:
    """Samples in the order they were taken: planned grey, sentinels and passes marked; `points` has x, y, kind."""
    with mpl.rc_context(STYLE):
        figure, axes = _panel(title, stamp)
        axes.axhline(1, color="0.3", linewidth=1, zorder=1)
        for kind, look in (
            ("planned", {"marker": ".", "color": "0.65", "s": 14}),
            (
                "sentinel",
                {"marker": "D", "color": COLOURS[3], "s": 28, "edgecolor": "black", "linewidth": 0.5},
            ),
            ("pass before", {"marker": "o", "color": COLOURS[0], "s": 20}),
            ("pass after", {"marker": "s", "color": COLOURS[1], "s": 20, "edgecolor": "black", "linewidth": 0.5}),
        ):
            chosen = points[points["kind"] == kind]
            if len(chosen):
                axes.scatter(chosen["x"], chosen["y"], label=f"{kind} (n = {len(chosen)})", zorder=2, **look)
        axes.set(xlabel=x_label, ylabel=y_label)
        _legend(axes)
        return _svg(figure, title)


def _panel(
    title: str, stamp: str, inches: tuple[float, float] = PANEL_INCHES, top: float = 0.83
) -> tuple[Figure, Axes]:
    """Figure and axes with fixed margins: a layout engine would draw everything twice."""
    figure = Figure(figsize=inches)
    stamp = textwrap.fill(stamp, 92)
    foot = (0.72 if "\n" not in stamp else 0.84) / inches[1]
    axes = figure.add_axes((0.14, foot, 0.82, top - foot))
    figure.text(0.015, 0.985, title, va="top", fontsize=11, fontweight="bold")
    figure.text(0.015, 0.015, stamp, va="bottom", fontsize=7, color="0.3", linespacing=1.3)
    return figure, axes


def _draw(axes: Axes, line: Line, number: int, usual: int) -> None:
    points = line.points
    look: dict[str, Any] = {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number % len(DASHES)],
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
    for point in points.itertuples():
        strokes = [point.x] * len(point.samples)
        axes.plot(strokes, point.samples, "_", color=look["color"], alpha=0.7, markersize=9, markeredgewidth=0.9)
        if point.n != usual:
            axes.annotate(f"n={point.n}", (point.x, point.median), (4, 5), textcoords="offset points", fontsize=7)


def _usual_n(lines: Sequence[Line]) -> int:
    counts = pd.concat([line.points["n"] for line in lines]) if lines else pd.Series(dtype=int)
    return int(counts.max()) if len(counts) else 0


def _cell_text(point: Any, usual: int) -> str:
    words = [f"{point.median:.3g}" if point.median < 1000 else f"{point.median:.0f}"]
    words.append("" if pd.isna(point.cov) else f"± {point.cov * 100:.1f}%")
    return "\n".join([*filter(None, words), *([f"n={point.n}"] if point.n != usual else [])])


def _legend(axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(-0.13, 1.0),
            ncols=5 if sum(map(len, labels)) < 45 else 2,
            borderaxespad=0.2,
            columnspacing=1.3,
            handlelength=2.4,
        )


def _svg(figure: Figure, title: str) -> str:
    """The figure as an <svg> element for a page: no prolog, no date, ids of its own."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    key = re.sub(r"\W+", "-", title.lower()).strip("-")
    text = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{key}-", text)
    width, height = figure.get_size_inches() * 72
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{title}"'
    head += ' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return head + text[text.index(">") + 1 :].strip()
