"""Samples in the order they were taken."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pandas as pd

from fsage.figures.panel import Panel, finish
from fsage.figures.style import COLOURS, STYLE, canvas, legend

LOOKS: dict[str, dict[str, Any]] = {
    "planned": {"marker": ".", "color": "0.65", "markersize": 4},
    "sentinel": {"marker": "D", "color": COLOURS[3], "markersize": 5, "markeredgecolor": "black"},
    "pass before": {"marker": "o", "color": COLOURS[0], "markersize": 4.5},
    "pass after": {"marker": "s", "color": COLOURS[1], "markersize": 4.5, "markeredgecolor": "black"},
}
"""What tells of drift; the later is drawn over the earlier."""


def drift_panel(title: str, points: pd.DataFrame, x_label: str, y_label: str, stamp: str) -> Panel:
    """`points` has x, y and kind, one of LOOKS; 1 is what was expected."""
    with mpl.rc_context(STYLE):
        figure, axes = canvas(title, stamp)
        axes.axhline(1, color="0.3", linewidth=1, zorder=1)
        for kind, look in LOOKS.items():
            chosen = points[points["kind"] == kind]
            if len(chosen):
                label = f"{kind} (n = {len(chosen)})"
                axes.plot(chosen["x"], chosen["y"], label=label, linestyle="none", markeredgewidth=0.5, **look)
        axes.set(xlabel=x_label, ylabel=y_label)
        legend(axes)
        return finish(figure, axes, title)
