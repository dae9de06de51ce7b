"""A finished figure, as SVG for the page and as files; the same bytes each time."""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fsage.figures import style, values

warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")  # in a name: who reads the page has it

SHORTER = {
    re.compile(r"\s*(?:<metadata>.*?</metadata>|<!--.*?-->)", re.S): "",
    re.compile(r"\s*\n\s*(?=[<\"])"): "",
    re.compile(r"\s*\n\s*"): " ",
    re.compile(r' transform="rotate\(-?0 [^"]*\)"'): "",
}
"""What Matplotlib writes for people who read SVG, and what says the same."""
ALIKE = re.compile(r'(<use [^>]*style="([^"]*)"/>)(?:<use [^>]*style="\2"/>)+')
"""Marks that look alike: of a trace there are thousands."""
LONG_NUMBER = re.compile(r"(-?\d+\.\d\d)\d+")
"""Of a coordinate, to a hundredth of a point; cut, not rounded: nothing is seen of it."""
POINT_RADIUS = 6.0
"""What around a point answers to the pointer, in points of 1/72 inch."""


class Mark(NamedTuple):
    """A place in data coordinates that says `text` under the pointer: a point, or a box of `width` x `height`."""

    x: float
    y: float
    text: str
    width: float = 0.0
    height: float = 0.0


@dataclass(frozen=True)
class Panel:
    """One figure. `name` is its title as a file name, `svg` an <svg> element for a page, `pdf` a file's content."""

    title: str
    name: str
    svg: str
    pdf: bytes

    def write(self, folder: Path) -> None:
        """Write `<name>.svg` and `<name>.pdf` into an existing folder."""
        (folder / f"{self.name}.svg").write_text(f'<?xml version="1.0" encoding="utf-8"?>\n{self.svg}\n', "utf-8")
        (folder / f"{self.name}.pdf").write_bytes(self.pdf)


def finish(figure: Figure, axes: Axes, of: values.Figure, marks: Iterable[Mark] = ()) -> Panel:
    """Draw `figure`, which shows the values `of`; `marks` lie over `axes` in the SVG only."""
    title = of.title
    name = of.name
    width, height = (float(inches) * 72 for inches in figure.get_size_inches())
    head = (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}"'
        ' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    hover = "".join(_hover(figure, axes, mark) for mark in marks)
    if hover:
        over = f'<g fill="none" pointer-events="all">{hover}</g>'
    else:
        over = ""
    return Panel(title, name, head + _body(figure, name) + over + "</svg>", _pdf(figure))


def _body(figure: Figure, name: str) -> str:
    """What Matplotlib draws, without prolog, date and <svg>; its ids are of `name` alone."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") : text.rindex("</svg>")]
    text = text[text.index(">") + 1 :].replace(f"'{style.FAMILY}', ", "")  # no browser has it
    for pattern, instead in SHORTER.items():
        text = pattern.sub(instead, text)
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', text))
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", text)
    text = re.sub(r' style="[^"]*"', lambda match: re.sub(r"(?<=[;:]) ", "", match[0]), text)
    text = re.sub(r' (?:d|x|y)="[^"]*"', lambda match: LONG_NUMBER.sub(r"\1", match[0]), text)
    text = ALIKE.sub(_together, text)
    own = f"f{zlib.crc32(name.encode()):08x}"
    return re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{own}-", text).strip()


def _together(run: re.Match[str]) -> str:
    look = f' style="{run[2]}"'
    return f"<g{look}>{run[0].replace(look, '')}</g>"


def _pdf(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return buffer.getvalue()


def _hover(figure: Figure, axes: Axes, mark: Mark) -> str:
    axes.get_xlim(), axes.get_ylim()  # settle the limits: transData alone would use stale ones
    scale = 72 / figure.dpi
    ends = [(mark.x, mark.y), (mark.x + mark.width, mark.y + mark.height)]
    (x, y), (x_end, y_end) = axes.transData.transform(ends) * scale
    height = figure.get_size_inches()[1] * 72
    say = f"<title>{escape(mark.text)}</title>"
    if mark.width:
        left = min(x, x_end)
        top = height - max(y, y_end)
        box = f'x="{left:.1f}" y="{top:.1f}" width="{abs(x_end - x):.1f}" height="{abs(y_end - y):.1f}"'
        return f"<rect {box}>{say}</rect>"
    dot = f'cx="{x:.1f}" cy="{height - y:.1f}" r="{POINT_RADIUS:g}"'
    return f"<circle {dot}>{say}</circle>"
