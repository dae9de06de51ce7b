"""Figures: plain values in, drawings out, the same bytes each time. What is shown of which study: fsage.report.

`values`: what a figure shows, also from a tidy table; nothing there needs Matplotlib. `drawing`: all of them drawn,
which does. How they look and are written is in style.py. Every figure is small enough to be read on a phone. It tells
its parts apart by marker, dash or hatch as well as by colour. Its stamp names the (modelled) device on which its
numbers were taken.
"""

from fsage.figures.values import (
    Axis,
    Band,
    Bars,
    Cloud,
    Figure,
    Level,
    Lines,
    Place,
    Plane,
    Point,
    RunChart,
    Series,
    Strips,
    Trace,
    lines,
    placed,
    shares,
    slug,
)

__all__ = [
    "Axis",
    "Band",
    "Bars",
    "Cloud",
    "Figure",
    "Level",
    "Lines",
    "Place",
    "Plane",
    "Point",
    "RunChart",
    "Series",
    "Strips",
    "Trace",
    "lines",
    "placed",
    "shares",
    "slug",
]
