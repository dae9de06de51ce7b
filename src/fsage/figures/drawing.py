"""All figures of a page drawn, a process a processor: drawing is most of what a report takes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from fsage.figures.charts import draw_bars, draw_lines, draw_run_chart, draw_strips, draw_trace
from fsage.figures.panel import Panel
from fsage.figures.plane import draw_plane
from fsage.figures.style import PAGE, Size
from fsage.figures.values import Bars, Figure, Lines, Plane, RunChart, Strips, Trace

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
