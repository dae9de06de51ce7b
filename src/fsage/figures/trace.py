"""Device requests: where on the device against when."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pandas as pd

from fsage.figures.panel import Panel, finish
from fsage.figures.style import COLOURS, STYLE, canvas, legend

GIB = 1 << 30
VECTOR_AT_MOST = 4000
"""More requests than this are drawn as an image within the figure: as shapes they would weigh megabytes."""
LOOKS: dict[str, dict[str, Any]] = {
    "reads": {"marker": "o", "facecolors": "none", "edgecolors": COLOURS[0], "s": 13, "linewidths": 0.9},
    "writes": {"marker": "x", "color": COLOURS[3], "s": 13, "linewidths": 0.9},
}


def trace_panel(
    title: str,
    requests: pd.DataFrame,
    stamp: str,
    *,
    x_limits: tuple[float, float],
    y_limits: tuple[float, float],
) -> Panel:
    """`requests` has seconds, offset_bytes and write (bool); limits are in seconds and bytes, for panels to share."""
    with mpl.rc_context(STYLE):
        figure, axes = canvas(title, stamp)
        image = len(requests) > VECTOR_AT_MOST
        for label, look in LOOKS.items():
            chosen = requests[requests["write"] == (label == "writes")]
            if len(chosen):
                name = f"{label} (n = {len(chosen)})"
                axes.scatter(chosen["seconds"], chosen["offset_bytes"] / GIB, label=name, rasterized=image, **look)
        axes.set(xlabel="time, s", ylabel="place on the device, GiB")
        axes.set_xlim(*x_limits)
        axes.set_ylim(y_limits[0] / GIB, y_limits[1] / GIB)
        legend(axes)
        return finish(figure, axes, title)
