"""Templates and how numbers stand in them."""

from __future__ import annotations

import re
from typing import Any

import jinja2
from markupsafe import Markup, escape

from fsage.report.tables import known
from fsage.text.numbers import ratio_text
from fsage.text.sizes import round_size


def template(name: str) -> jinja2.Template:
    """A template of this package, by its file name."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("fsage.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(number=_number, percent=_percent, mib=_mib, size=round_size, ratio=_ratio, code=_code)
    return environment.get_template(name)


def _number(value: object, digits: int = 1) -> str:
    """Fixed digits, or a dash for what is not known."""
    return "\u2013" if known(value) is None else f"{value:,.{digits}f}".replace(",", "\u202f")


def _percent(share: object, digits: int = 1) -> str:
    return "\u2013" if known(share) is None else f"{share:.{digits}%}"


def _code(sentence: str) -> Markup:
    """What stands between backticks, as in the terminal's lines, as code; all else as text."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))


def _ratio(value: Any) -> str:
    """Three digits, of which the last is never rounded onto 1."""
    return "\u2013" if known(value) is None else f"{ratio_text(value, 3)}\u00d7"


def _mib(size_bytes: Any) -> str:
    return "\u2013" if known(size_bytes) is None else f"{size_bytes / (1 << 20):,.6g}".replace(",", "\u202f")
