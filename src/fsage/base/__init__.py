"""What all of fsage stands on: errors, units and JSON here; messages, sizes and others' files are a module each.

Nothing here knows anything of fsage. It runs wherever a part of fsage runs: Python 3.9, standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
Json = dict[str, Any]
"""A JSON object of which nothing more is declared."""
JsonView = Mapping[str, Any]
"""A block of JSON that is only read; a declared one (a TypedDict) is one too."""
Call = Callable[[], None]
"""What is only called. One that checks something raises where work must end, and is called often meanwhile."""


class Refusal(Exception):
    """The verb must not act; nothing was touched, and the text says what to do next (exit status 1)."""


class Failure(Exception):
    """The verb tried and failed; the text says what, on which file, which value (exit status 2)."""


class Misuse(ValueError):
    """A command has a wrong option or argument; nothing was looked at (exit status 2 of commands)."""


def in_words(error: BaseException, place: object = None) -> str:
    """An error in words; one of the system's has no number. `place` is named where the error names no file."""
    words = getattr(error, "strerror", None) or str(error)
    place = getattr(error, "filename", None) or place
    if place:
        return f"{place}: {words}"
    return words
