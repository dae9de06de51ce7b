"""How every figure looks: small enough for a phone, told apart without colour, its stamp inside."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE = {
    **sns.axes_style("ticks"),
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first comes with Matplotlib; then what is as wide
    "font.size": 10,
    "axes.labelsize": 10,
    "axes.grid": True,
    "axes.edgecolor": "0.35",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "0.9",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.6,
    "hatch.color": "0.3",
    "text.parse_math": False,  # a dollar in a label is a dollar
    "pdf.fonttype": 42,  # TrueType, embedded as subsets: publishers refuse Type 3
    "svg.fonttype": "none",  # text stays text: it can be searched and is a third of the bytes
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
HATCHES = ("", "//", "..", "xx", "\\\\", "++")
PANEL_INCHES = (5.2, 3.9)
HEAD_INCHES = 0.66  # a title, and a legend of two rows
LEGEND_ROW_INCHES = 0.17
TICK_ROW_INCHES = 0.17


def canvas(
    title: str,
    stamp: str,
    inches: tuple[float, float] = PANEL_INCHES,
    *,
    left: float = 0.14,
    head_inches: float = HEAD_INCHES,
    tick_rows: int = 1,
) -> tuple[Figure, Axes]:
    """Figure and axes below `title` and above `stamp`, which says on what the numbers were taken.

    The margins are fixed: a layout engine would draw everything twice. `head_inches` holds title and legend;
    `tick_rows`: the lines of names under the x axis, above its label.
    """
    figure = Figure(figsize=inches)
    stamp = textwrap.fill(stamp, 92)
    foot_inches = (0.72 if "\n" not in stamp else 0.84) + TICK_ROW_INCHES * (tick_rows - 1)
    foot = foot_inches / inches[1]
    axes = figure.add_axes((left, foot, 0.96 - left, 1 - head_inches / inches[1] - foot))
    figure.text(0.015, 1 - 0.06 / inches[1], title, va="top", fontsize=11, fontweight="bold")
    figure.text(0.015, 0.06 / inches[1], stamp, va="bottom", fontsize=7, color="0.3", linespacing=1.3)
    return figure, axes


HANDLE_CHARACTERS = 4
LONG_LABEL = 32
"""Characters of which two beside each other are wider than a panel."""


def head_of(labels: Sequence[str]) -> float:
    """The inches that a title and a legend of these labels take."""
    return HEAD_INCHES + LEGEND_ROW_INCHES * max(0, -(-len(labels) // _columns(labels)) - 2)


def legend(axes: Axes) -> None:
    """What the lines and marks are, in a few rows between title and axes."""
    handles, labels = axes.get_legend_handles_labels()
    if labels:
        axes.figure.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.005, axes.get_position().y1),
            ncols=_columns(labels),
            borderaxespad=0.2,
            columnspacing=1.3,
            handlelength=2.4,
            fontsize=None if max(map(len, labels)) < LONG_LABEL else 8,
        )


def _columns(labels: Sequence[str]) -> int:
    return 5 if sum(len(label) + HANDLE_CHARACTERS for label in labels) < 52 else 2
