"""Runs of blocks as dumpe2fs lists them, `9305-32767, 33000`, and its numbers: there are millions."""

from __future__ import annotations

import json
from collections.abc import Iterator

DIGITS = b"0123456789"
PART_BYTES = 1 << 14


def numbers(listed: str) -> list[int]:
    """Of digits with commas between. Raises ValueError, also for a number that begins with a 0."""
    values: list[int] = json.loads(f"[{listed}]")  # the quickest way that Python itself has
    return values


def runs(text: bytes, more: int) -> tuple[list[int], list[int]]:
    """Where runs begin, and where they end: `more` after the beginning of their last block. Raises ValueError."""
    between = text.translate(None, DIGITS)
    if between.replace(b", ", b"").translate(None, b"-"):
        raise ValueError(f"{text[:20]!r} is no run of blocks")
    words, count = text.decode(), between.count(b",") + 1
    if between != b"-, " * (count - 1) + b"-":
        words = ", ".join([run if "-" in run else f"{run}-{run}" for run in words.split(", ")])
    try:
        ends = numbers(words.replace("-", ","))
    except ValueError:
        raise ValueError(f"{text[:40]!r} ... is no run of blocks") from None
    if len(ends) != 2 * count:
        raise ValueError(f"{text[:40]!r} ... has a run of more than two blocks")
    return ends[::2], [last + more for last in ends[1::2]]


def parts(text: bytes) -> Iterator[bytes]:
    """A list in pieces, cut between two runs: one of 7 MB has a million."""
    at, end = 0, len(text)
    while at < end:
        stop = text.find(b", ", at + PART_BYTES)
        stop = end if stop < 0 else stop
        yield text[at:stop]
        at = stop + len(", ")
