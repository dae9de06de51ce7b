"""A device's free space in the order of its blocks, states one under the other."""

from __future__ import annotations

import numpy as np
import seaborn as sns

from fsage.figures.panel import Panel, finish
from fsage.figures.style import PLAIN, Size, canvas, style
from fsage.figures.values import Strips

USED_TO_FREE = sns.color_palette("blend:#1f4e79,#9dc0dc,#ffffff", as_cmap=True)
GIB = 1 << 30
STRIP_INCHES = 0.3


def draw_strips(of: Strips, stamp: str, size: Size) -> Panel:
    """From the device's first byte to its last."""
    strips = of.strips
    with style(size, **PLAIN):
        height = STRIP_INCHES * len(strips) + 1.25
        longest = max(map(len, strips))
        figure, axes = canvas(of.title, stamp, size, height, left_inches=0.31 + 0.081 * longest, head_inches=0.36)
        for row, shares in enumerate(strips.values()):
            # One image a strip: scaling it up may blend neighbouring bins, never neighbouring states.
            box = (0, of.device_bytes / GIB, row + 0.42, row - 0.42)
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
        axes.set(xlabel="place, GiB (dark: in use)", ylim=(len(strips) - 0.5, -0.5))
        axes.set_yticks(range(len(strips)), list(strips), fontsize=size.points(9))
        axes.tick_params(axis="y", length=0)
        return finish(figure, axes, of)
