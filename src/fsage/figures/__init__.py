"""Drawing: tables in, figures out, the same bytes each time. What is drawn of which study: fsage.report.

Every panel is small enough to be read on a phone, tells its parts apart by marker, dash or hatch as well as by
colour, and carries the stamp: on which (modelled) device its numbers were taken. One file a kind of figure; how they
look is in style.py, how they are written in panel.py.
"""

from fsage.figures.bars import bars_panel
from fsage.figures.drift import drift_panel
from fsage.figures.lines import Line, limits, limits_with_zero, line_panel
from fsage.figures.panel import Panel
from fsage.figures.plane import plane_panel
from fsage.figures.strips import strips_panel
from fsage.figures.trace import trace_panel

__all__ = [
    "Line",
    "Panel",
    "bars_panel",
    "drift_panel",
    "limits",
    "limits_with_zero",
    "line_panel",
    "plane_panel",
    "strips_panel",
    "trace_panel",
]
