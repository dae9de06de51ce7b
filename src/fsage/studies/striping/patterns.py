"""Striping patterns as data: directory types, and patterns of them (patterns.yaml, or a study's own)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import yaml
from pydantic import Field, model_validator

from fsage.model.striping import Nominal
from fsage.text.sizes import format_size, parse_size
from fsage.text.strict import Problem, Size, Strict, noting, refuse, unknown_value

FILE = Path(__file__).with_name("patterns.yaml")
Positive = Annotated[int, Field(gt=0)]
Written = Annotated[list[str], Field(min_length=1)]
"""A pattern as it is written: [A to 1T, B]."""


class Type(Strict):
    """A directory type: how many OSTs a file goes round, and how many bytes each has a turn."""

    count: Positive
    stripe_size: Size


class Pattern(NamedTuple):
    """Segments in order, of a file of nominal size `file_bytes`.

    A target's factor for stripe counts is by `largest_count`, the largest of all patterns of its set: so a name has the
    same stripes on a target, whatever it is measured beside.
    """

    file_bytes: int
    segments: tuple[Nominal, ...]
    largest_count: int


class Set(Strict):
    """Patterns that were run in the same way."""

    workload: Literal["ior", "netflow", "blast"]
    file_size: Size
    patterns: dict[str, Written]
    repetitions: Positive
    nodes: list[Positive]
    tasks: Positive | None = None
    distribution: list[Literal["synchronous", "asynchronous"]] = Field(default_factory=list)


class Patterns(Strict):
    """The file patterns.yaml."""

    types: dict[str, Type]
    sets: list[Set]

    @model_validator(mode="after")
    def _can_be_read(self) -> Patterns:
        problems: list[Problem] = []
        for number, pattern_set in enumerate(self.sets):
            for name, written in pattern_set.patterns.items():
                with noting(problems, "sets", number, "patterns", name):
                    segments(written, pattern_set.file_size, self.types)
        if problems:
            refuse(problems)
        return self

    def named(self) -> dict[str, Pattern]:
        """Every pattern by its name."""
        by_name = {}
        for pattern_set in self.sets:
            made = {
                name: segments(written, pattern_set.file_size, self.types)
                for name, written in pattern_set.patterns.items()
            }
            by_name.update(
                {name: Pattern(pattern_set.file_size, segs, largest(made.values())) for name, segs in made.items()}
            )
        return by_name

    def set_of(self, name: str) -> int | None:
        """The number of the set that has a pattern of that name; None if none has."""
        return next((number for number, pattern_set in enumerate(self.sets) if name in pattern_set.patterns), None)


def largest(patterns: Iterable[tuple[Nominal, ...]]) -> int:
    """The largest stripe count in some patterns."""
    return max(segment.stripes for pattern in patterns for segment in pattern)


@cache
def known() -> Patterns:
    """The patterns that come with this project."""
    return Patterns.model_validate(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def segments(written: list[str], file_bytes: int, types: Mapping[str, Type]) -> tuple[Nominal, ...]:
    """The segments that a pattern names.

    Raises ValidationError for an unknown type, watermarks that do not rise or lie outside the file, and a pattern that
    ends before the file does: a native layout like that has no place for what comes after.
    """
    nominals: list[Nominal] = []
    problems: list[Problem] = []
    reached = 0
    for index, text in enumerate(written):
        with noting(problems, index):
            match = re.fullmatch(r"(\S+?)(?: to (.+))?", text)
            if not match or match[1] not in types:
                raise ValueError(unknown_value(match[1] if match else text, types) + "; written as A or A to 1G")
            last = index == len(written) - 1
            if last and match[2]:
                raise ValueError(f"{text!r} ends the pattern before the file: the last segment has no watermark")
            if not last and not match[2]:
                raise ValueError(f"{text!r} has no watermark, and another segment follows: write {match[1]} to SIZE")
            end = parse_size(match[2]) if match[2] else None
            if end is not None and not reached < end < file_bytes:
                raise ValueError(
                    f"{text!r}: watermarks rise, from above {format_size(reached) if reached else 0} to below "
                    f"{format_size(file_bytes)}, the file's size"
                )
            reached = end or reached
            nominals.append(Nominal(end, types[match[1]].count, types[match[1]].stripe_size))
    if problems:
        refuse(problems)
    return tuple(nominals)


def find(name: str, own: Mapping[str, Pattern]) -> Pattern:
    """The pattern of that name, a study's own or a known one. ValueError if there is none."""
    every = {**known().named(), **own}
    if name not in every:
        raise ValueError(unknown_value(name, every))
    return every[name]
