"""What is printed on a terminal: nothing of others' text steers it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fsage.base.message import lines


class Terminal(Console):
    """Rich's console, on which text is never markup and only Rich itself writes escape sequences."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "highlight": False, "emoji": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Segments of what is printed; their texts hold nothing that steers the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(lines(segment.text), segment.style)
