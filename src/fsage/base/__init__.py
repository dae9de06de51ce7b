"""What all of fsage stands on: errors and units here, then messages, sizes and files of others, each a module.

Nothing here knows anything of fsage. It runs wherever a part of fsage runs: Python 3.9, standard library only.
"""

from __future__ import annotations

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40


class Refusal(Exception):
    """The verb must not act; nothing was touched, and the text says what to do next (exit status 1)."""


class Failure(Exception):
    """The verb tried and failed; the text says what, on which file, which value (exit status 2)."""


def in_words(error: BaseException, place: object = None) -> str:
    """An error in words; one of the system's has no number. `place` is named where the error names no file."""
    words = getattr(error, "strerror", None) or str(error)
    place = getattr(error, "filename", None) or place
    if place:
        return f"{place}: {words}"
    return words
