"""The two ways in which a verb ends without having done its work, and the words of what the system refused."""

from __future__ import annotations


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
