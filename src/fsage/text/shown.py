"""Texts of others as they are shown: in a page, and on a terminal, which they do not steer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup, escape
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fsage.base.message import lines


def code(sentence: str) -> Markup:
    """A sentence of the terminal in a page: what stands between backticks as code, and all else as text."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))


class Terminal(Console):
    """Rich's console, on which text is never markup and only Rich itself writes escape sequences."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "highlight": False, "emoji": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of what is printed; their texts hold nothing that steers the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(lines(segment.text), segment.style)
