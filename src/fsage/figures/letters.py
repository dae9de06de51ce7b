"""DejaVu Sans without the letters that hardly any figure has: what a PDF embeds is cut out of 400 glyphs, not 6,000.

Matplotlib reads and cuts a font for every figure, which took half of a report's time. A letter that is missing here
comes from the whole DejaVu Sans, which stands next in the list of families.
"""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import matplotlib as mpl
from fontTools.subset import Options, Subsetter  # type: ignore[import-untyped]  # it comes without types, with Matplotlib
from fontTools.ttLib import TTFont  # type: ignore[import-untyped]
from matplotlib import font_manager

WHOLE, FAMILY = "DejaVu Sans", "fsage Sans"
LETTERS = [
    *(*range(0x20, 0x7F), *range(0xA0, 0x180)),  # Latin
    *range(0x391, 0x3CA),  # Greek
    *(*range(0x2010, 0x2027), *range(0x2190, 0x2194)),  # punctuation, arrows
    *(0x2032, 0x2033, 0x2212, 0x221E, 0x2248, 0x2260, 0x2264, 0x2265),  # signs
]
FAMILY_NAMES = (1, 16)
"""Of the table `name` of OpenType: family, and typographic family."""


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
