"""How every figure looks: small enough for a phone or a column, told apart without colour, its stamp inside.

Letters are those of DejaVu Sans, without those that hardly any figure has: what a PDF embeds is cut out of 400 glyphs,
not 6,000. Matplotlib reads and cuts a font for every figure, which took half of a report's time. A letter that is
missing here comes from the whole DejaVu Sans, which stands next in the list of families.

A finished figure is SVG for the page, and files: the same bytes each time.
"""

from __future__ import annotations

import functools
import io
import os
import re
import tempfile
import textwrap
import warnings
import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import seaborn as sns
from fontTools.subset import Options, Subsetter  # type: ignore[import-untyped]  # it comes without types, with Matplotlib
from fontTools.ttLib import TTFont  # type: ignore[import-untyped]  # nor has this
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from fsage import figures

WHOLE = "DejaVu Sans"
FAMILY = "fsage Sans"
LETTERS = [
    *(*range(0x20, 0x7F), *range(0xA0, 0x180)),  # Latin
    *range(0x391, 0x3CA),  # Greek
    *(*range(0x2010, 0x2027), *range(0x2190, 0x2194)),  # punctuation, arrows
    *(0x2032, 0x2033, 0x2212, 0x221E, 0x2248, 0x2260, 0x2264, 0x2265),  # signs
]
FAMILY_NAMES = (1, 16)
"""Numbers in the table `name` of OpenType: family, and typographic family."""


@functools.cache
def families() -> tuple[str, str]:
    """The families to set letters in, in order; the first is made once and kept in Matplotlib's own cache."""
    for weight in ("normal", "bold"):
        whole = Path(font_manager.findfont(font_manager.FontProperties(family=WHOLE, weight=weight)))
        kept = Path(mpl.get_cachedir()) / f"fsage-{mpl.__version__}-{whole.name}"
        if not kept.exists():
            _cut(whole, kept)
        font_manager.fontManager.addfont(kept)
    return FAMILY, WHOLE


def _cut(whole: Path, kept: Path) -> None:
    """Write the font with LETTERS alone. A PDF says where each letter stands, so the tables of layout go too."""
    options = Options()
    options.drop_tables += ["FFTM", "GDEF", "GPOS", "GSUB"]
    options.name_IDs = ["*"]
    with TTFont(whole) as font:
        cutter = Subsetter(options)
        cutter.populate(unicodes=LETTERS)
        cutter.subset(font)
        for record in font["name"].names:
            if record.nameID in FAMILY_NAMES:
                record.string = FAMILY
        descriptor, path = tempfile.mkstemp(dir=kept.parent)
        with open(descriptor, "wb") as out:
            font.save(out)
    os.replace(path, kept)  # another process may make the same


class Size(NamedTuple):
    """How a figure is drawn: its width in inches, and how high it is and how large its letters beside a page's.

    `plain`: without title and stamp, which a paper's caption has.
    """

    width: float
    height: float = 1.0
    letters: float = 1.0
    plain: bool = False

    def points(self, size: float) -> float:
        """A size of letters on a page, here; none is too small for print."""
        return max(LEAST_POINTS, size * self.letters)

    def fit(self, characters: int, size: float = 10) -> int:
        """How many letters of a size stand here where so many do on a page."""
        return int(characters * self.width / PAGE.width * size / self.points(size))


LEAST_POINTS = 7.0
"""Journals ask for letters of 6 to 8 points at least."""
PAGE = Size(5.2)
COLUMNS = {1: Size(3.5, 0.8, 0.78), 2: Size(7.16, 1.0, 0.9)}
"""For papers: as wide as one column, or two, of the journals of IEEE (3.5 and 7.16 in)."""

_STYLE = {
    **sns.axes_style("ticks"),
    "font.family": "sans-serif",
    "axes.grid": True,
    "axes.edgecolor": "0.35",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "0.9",
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
    "hatch.color": "0.3",
    "text.parse_math": False,  # a dollar in a label is a dollar
    "pdf.fonttype": 42,  # TrueType, embedded as subsets: publishers refuse Type 3
    "svg.fonttype": "none",  # text stays text: it can be searched and is a third of the bytes
    "svg.hashsalt": "fsage",
}
AS_WIDE = ("Verdana", "Arial")
"""Families for a browser that has no DejaVu Sans."""
PLAIN = {"axes.grid": False, "axes.spines.left": False, "axes.spines.bottom": False}
"""For what fills its axes."""
POINTS = {"font.size": 10, "axes.labelsize": 10, "xtick.labelsize": 10, "ytick.labelsize": 10, "legend.fontsize": 9}
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
PANEL_INCHES = 3.9
"""The height of most figures on a page."""
HEAD_INCHES = 0.66  # a title of a row, and a legend of two
ROW_INCHES = 0.18
LETTER_INCHES = 0.082
FOOT_INCHES = 0.6
STAMP_ROW_INCHES = 0.12
STAMP_POINTS = 7.0
LEFT_INCHES = 0.73
RIGHT_INCHES = 0.21
TITLE_CHARACTERS = 58
STAMP_CHARACTERS = 92


def style(size: Size, **more: object) -> AbstractContextManager[None]:
    """Matplotlib's settings for figures of a size, and `more` of them, while it is entered."""
    letters = {name: size.points(points) for name, points in POINTS.items()}
    sans = {"font.sans-serif": [*families(), *AS_WIDE]}
    settings: Any = {**_STYLE, **sans, **letters, **more}
    return mpl.rc_context(settings)


def canvas(
    title: str,
    stamp: str,
    size: Size,
    height_inches: float = PANEL_INCHES,
    *,
    left_inches: float = LEFT_INCHES,
    head_inches: float = HEAD_INCHES,
    tick_rows: int = 1,
) -> tuple[Figure, Axes]:
    """Figure and axes below `title` and above `stamp`, which says on what the numbers were taken.

    The margins are fixed: a layout engine would draw everything twice. They are a page's, and smaller with the letters.
    `head_inches` holds a title of one row and the legend; `tick_rows`: the lines of names under the x axis, above its
    label.
    """
    width = size.width
    height = height_inches * size.height
    figure = Figure(figsize=(width, height))
    if size.plain:
        stamp = ""
        title = ""
    else:
        stamp = textwrap.fill(stamp, size.fit(STAMP_CHARACTERS, STAMP_POINTS))
        title = textwrap.fill(title, size.fit(TITLE_CHARACTERS, 11))
    row = size.points(STAMP_POINTS) / STAMP_POINTS * STAMP_ROW_INCHES
    foot = (
        size.letters * (FOOT_INCHES + ROW_INCHES * (tick_rows - 1)) + row * (stamp.count("\n") + bool(stamp))
    ) / height
    head = size.letters * (head_inches + ROW_INCHES * (title.count("\n") - size.plain)) / height
    left, right = (size.letters * inches / width for inches in (left_inches, RIGHT_INCHES))
    axes = figure.add_axes((left, foot, 1 - right - left, 1 - head - foot))
    at = 0.08 / width
    low = 0.06 / height
    figure.text(at, 1 - low, title, va="top", fontsize=size.points(11), fontweight="bold")
    figure.text(at, low, stamp, va="bottom", fontsize=size.points(STAMP_POINTS), color="0.3", linespacing=1.3)
    return figure, axes


def name_axes(axes: Axes, x_label: str, y_label: str, size: Size) -> None:
    """Say what is on the axes; in rows what is longer than its axis, which gives room for them and for long numbers."""
    x_label = textwrap.fill(x_label, _fitting(axes.bbox.width / axes.figure.dpi, size))
    x, y, width, height = axes.get_position().bounds
    rows = size.letters * ROW_INCHES * x_label.count("\n") / (axes.figure.bbox.height / axes.figure.dpi)
    axes.set_position((x, y + rows, width, height - rows))
    y_label = textwrap.fill(y_label, _fitting(axes.bbox.height / axes.figure.dpi, size))
    numbers = axes.yaxis.get_major_formatter().format_ticks(list(axes.get_yticks()))
    digits = max((len(str(number)) for number in numbers), default=0)
    inches = ROW_INCHES * y_label.count("\n") + LETTER_INCHES * max(0, digits - SHORT_NUMBER)
    columns = size.letters * inches / (axes.figure.bbox.width / axes.figure.dpi)
    axes.set_position((x + columns, y + rows, width - columns, height - rows))
    axes.set(xlabel=x_label, ylabel=y_label)


def _fitting(inches: float, size: Size) -> int:
    """How many letters of a label stand beside so much of an axis."""
    return max(12, int(inches / LETTER_INCHES / size.letters))


SHORT_NUMBER = 4
"""So long are the numbers beside the y axis for which there is room."""
HANDLE_CHARACTERS = 4
ONE_ROW = 52
"""Characters of the labels, handles among them, that stand beside each other."""
TWO_BESIDE = 80
"""Characters of the two columns of a legend together, in small letters."""
LONG_LABEL = 32
"""Characters of which two beside each other are wider than a panel."""


def head_of(labels: Sequence[str], size: Size) -> float:
    """The inches that a title and a legend of these labels take on a page."""
    return HEAD_INCHES + ROW_INCHES * max(0, -(-len(labels) // _columns(labels, size)) - 2)


def ink_on(colour: Any) -> str:
    """Black or white, whichever has more contrast on a colour, by WCAG 2 at least 4.5:1."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    luminance = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    if (luminance + 0.05) / 0.05 >= 1.05 / (luminance + 0.05):
        return "black"
    return "white"


def legend(axes: Axes, size: Size, made: Sequence[Artist] = ()) -> None:
    """What the lines and marks are, in a few rows between title and axes. `made`: handles that no axes knows of."""
    handles, labels = axes.get_legend_handles_labels()
    handles = [*handles, *made]
    labels = [*labels, *(str(handle.get_label()) for handle in made)]
    if len(labels) > 1 or made:  # one alone is what the title says
        axes.figure.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.005, axes.get_position().y1),
            ncols=_columns(labels, size),
            borderaxespad=0.2,
            columnspacing=1.3,
            handlelength=2.4,
            fontsize=size.points(9 if max(map(len, labels)) < size.fit(LONG_LABEL, 9) else 8),
        )


def _columns(labels: Sequence[str], size: Size) -> int:
    taken = sum(len(label) + HANDLE_CHARACTERS for label in labels)
    if taken < size.fit(ONE_ROW, 9):
        return 5
    longest = 2 * (max(map(len, labels)) + HANDLE_CHARACTERS)
    if longest < size.fit(TWO_BESIDE, 8):
        return 2
    return 1


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
"""A coordinate, of which hundredths of a point stay; cut, not rounded: nobody sees the difference."""
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


def finish(figure: Figure, axes: Axes, of: figures.Figure, marks: Iterable[Mark] = ()) -> Panel:
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
    text = text[text.index(">") + 1 :].replace(f"'{FAMILY}', ", "")  # no browser has it
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
