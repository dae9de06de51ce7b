"""Samples in the order they were taken."""

from __future__ import annotations

from typing import Any

from fsage.figures.panel import Panel, finish
from fsage.figures.style import COLOURS, Size, canvas, legend, name_axes, style
from fsage.figures.values import RunChart

LOOKS: dict[str, dict[str, Any]] = {
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
            axes.plot(cloud.xs, cloud.ys, label=label, linestyle="none", markeredgewidth=0.5, **LOOKS[cloud.kind])
        name_axes(axes, chart.x.label, chart.y.label, size)
        legend(axes, size)
        return finish(figure, axes, chart)
