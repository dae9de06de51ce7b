"""Device requests: where on the device against when."""

from __future__ import annotations

from typing import Any

from fsage.figures.panel import Panel, finish
from fsage.figures.style import COLOURS, Size, canvas, legend, name_axes, style
from fsage.figures.values import Trace

GIB = 1 << 30
VECTOR_AT_MOST = 3000
"""More requests than this are drawn as an image within the figure: as shapes they would weigh megabytes."""
LOOKS: dict[str, dict[str, Any]] = {
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
                look = {"markersize": 3.6, "markeredgewidth": 0.9, "linestyle": "none", **LOOKS[cloud.kind]}
                axes.plot(cloud.xs, places, label=name, rasterized=image, **look)
        name_axes(axes, trace.x.label, trace.y.label, size)
        if trace.x.limits and trace.y.limits:
            axes.set_xlim(*trace.x.limits)
            axes.set_ylim(*(end / GIB for end in trace.y.limits))
        legend(axes, size)
        return finish(figure, axes, trace)
