"""Striping: a file in layouts whose stripes grow at watermarks (dynamic), beside layouts that do not (static).

Patterns are data: directory types, and patterns of them (patterns.yaml, or a study's own).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import yaml
from pydantic import Field, PlainValidator, model_validator

from fsage.api.model import format_size, parse_size
from fsage.api.study import Levels, Problems, Seed, Size, Spelled, State, Strict, unknown_value

from .model import Nominal, Stripe

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
        with Problems() as wrong:
            for number, pattern_set in enumerate(self.sets):
                for name, written in pattern_set.patterns.items():
                    with wrong.at("sets", number, "patterns", name):
                        segments(written, pattern_set.file_size, self.types)
        return self

    def named(self) -> dict[str, Pattern]:
        """Every pattern by its name."""
        by_name: dict[str, Pattern] = {}
        for pattern_set in self.sets:
            size = pattern_set.file_size
            made = {name: segments(written, size, self.types) for name, written in pattern_set.patterns.items()}
            largest = most_stripes(made.values())
            for name, found in made.items():
                by_name[name] = Pattern(size, found, largest)
        return by_name

    def set_of(self, name: str) -> int | None:
        """The number of the set that has a pattern of that name; None if none has."""
        return next((number for number, pattern_set in enumerate(self.sets) if name in pattern_set.patterns), None)


def most_stripes(patterns: Iterable[tuple[Nominal, ...]]) -> int:
    """The largest stripe count in some patterns."""
    return max(segment.stripes for pattern in patterns for segment in pattern)


@cache
def known_patterns() -> Patterns:
    """The patterns that come with this project."""
    return Patterns.model_validate(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def segments(written: list[str], file_bytes: int, types: Mapping[str, Type]) -> tuple[Nominal, ...]:
    """The segments that a pattern names.

    Raises ValidationError for an unknown type, watermarks that do not rise or lie outside the file, and a pattern that
    ends before the file does: a native layout like that has no place for what comes after.
    """
    nominals: list[Nominal] = []
    reached = 0
    with Problems() as wrong:
        for index, text in enumerate(written):
            with wrong.at(index):
                nominal = _segment(text, index == len(written) - 1, reached, file_bytes, types)
                nominals.append(nominal)
                reached = nominal.end_bytes or reached
    return tuple(nominals)


def _segment(text: str, is_last: bool, reached: int, file_bytes: int, types: Mapping[str, Type]) -> Nominal:
    """The segment that begins where `reached`. Raises ValueError."""
    match = re.fullmatch(r"(\S+?)(?: to (.+))?", text)
    if not match or match[1] not in types:
        raise ValueError(unknown_value(match[1] if match else text, types) + "; written as A or A to 1G")
    if is_last and match[2]:
        raise ValueError(f"{text!r} ends the pattern before the file: the last segment has no watermark")
    if not is_last and not match[2]:
        raise ValueError(f"{text!r} has no watermark, and another segment follows: write {match[1]} to SIZE")
    end = parse_size(match[2]) if match[2] else None
    if end is not None and not reached < end < file_bytes:
        raise ValueError(
            f"{text!r}: watermarks rise, from above {format_size(reached) if reached else 0} to below "
            f"{format_size(file_bytes)}, the file's size"
        )
    return Nominal(end, types[match[1]].count, types[match[1]].stripe_size)


def find_pattern(name: str, own: Mapping[str, Pattern]) -> Pattern:
    """The pattern of that name, a study's own or a known one. ValueError if there is none."""
    every = {**known_patterns().named(), **own}
    if name not in every:
        raise ValueError(unknown_value(name, every))
    return every[name]


MOST_PERCENT = 50
MEMORY = "memory"


def _eviction_file(value: Any) -> float | str:
    if value == MEMORY or (type(value) in (int, float) and 0 < value <= MOST_PERCENT):
        return value
    given = json.dumps(value, default=str)
    raise ValueError(
        f"{given} is not allowed: percent of the capacity, above 0 and at most {MOST_PERCENT}, or {MEMORY}"
    )


EvictionFile = Annotated[
    Any,
    PlainValidator(
        _eviction_file,
        json_schema_input_type=Annotated[float, Field(gt=0, le=MOST_PERCENT)] | Literal["memory"],
    ),
]


class Patterned(Strict):
    """A state for each pattern, in which cells make their files. A recipe may add to it."""

    recipe: str
    pattern: Annotated[tuple[str, ...], Levels()] = Field(description="names of known patterns, or of those in `own`")
    default: str = Field(description="the pattern that the others are compared with")
    realisation: Literal["segments", "pfl"] = Field(
        "segments",
        description="segments: a file for each, in a directory striped as it (without Lustre: its objects); pfl: one "
        "file with Lustre's own composite layout",
    )
    own: dict[
        Annotated[str, Spelled(r"[A-Za-z][A-Za-z0-9.-]{0,31}", "a name of at most 32 letters, digits, '.' and '-'")],
        Written,
    ] = Field(default_factory=dict, description="further patterns: {mine: [A to 1G, B]}, of the types in patterns.yaml")
    file_size: Size | None = Field(None, description="nominal size of the file in `own`, to which its watermarks refer")
    eviction_file: EvictionFile | None = Field(
        None,
        description="a file that cells may read after caches were dropped: percent of the capacity, or as large as a "
        "client's memory; null: none",
    )
    seed: Seed | None = Field(0, description="without effect: nothing is drawn")
    reuse: Literal["nested", "fresh"] = Field(
        "nested", description="without effect: no layout is reached from another one"
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        shipped = known_patterns()
        own: dict[str, Pattern] = {}
        sizes: dict[int, str] = {}
        with Problems() as wrong:
            if self.own and self.file_size is None:
                wrong.add("file_size", "is missing, and the watermarks in 'own' relate to it")
            for name, written in self.own.items():
                with wrong.at("own", name):
                    if name in shipped.named():
                        raise ValueError(f"{name!r} is the name of a known pattern")
                    own[name] = self._read(written, 1)
            for index, name in enumerate(self.pattern):
                if name in self.own and name not in own:
                    continue  # said above
                with wrong.at("pattern", index):
                    sizes.setdefault(find_pattern(name, own).file_bytes, name)
            if len(sizes) > 1:
                names = " and ".join(sizes.values())
                wrong.add("pattern", f"{names} are of files of different sizes: one factor cannot scale both")
            of_sets = {number: name for name in self.pattern if (number := shipped.set_of(name)) is not None}
            if len(sizes) == 1 and len(of_sets) > 1:
                names = " and ".join(of_sets.values())
                wrong.add("pattern", f"{names} are of sets with factors of their own: one cannot scale both")
            if self.default not in self.pattern:
                wrong.add("default", unknown_value(self.default, self.pattern))
        return self

    def patterns(self) -> dict[str, Pattern]:
        """The patterns of the study by name, in its order."""
        shipped = known_patterns().named()
        beside = [shipped[name].largest_count for name in self.pattern if name in shipped]
        # The set beside which they are measured decides, for there is one factor; else all of the study's own do.
        every = [self._read(written, 1).segments for written in self.own.values()]
        largest = beside[0] if beside else most_stripes(every)
        own = {name: self._read(written, largest) for name, written in self.own.items()}
        return {name: find_pattern(name, own) for name in self.pattern}

    def _read(self, written: list[str], largest: int) -> Pattern:
        size = self.file_size or 1
        return Pattern(size, segments(written, size, known_patterns().types), largest)


class States(Patterned):
    """Block `states:` of a study."""

    recipe: Literal["striping"] = "striping"


def expand(states: Patterned) -> list[State]:
    """Return a state for each pattern, the default one first."""
    named_patterns = states.patterns()
    return [_state(states, name, named_patterns[name]) for name in sorted(named_patterns, key=states.default.__ne__)]


def _state(states: Patterned, name: str, pattern: Pattern) -> State:
    nominal = {
        "recipe": states.recipe,
        "reference": states.default,
        "fullness_percent": 0,
        "axes": {"pattern": name, "segments": len(pattern.segments), "realisation": states.realisation},
    }
    axes: dict[str, object] = {"pattern": name}
    size = pattern.file_bytes
    count = pattern.largest_count
    segments = pattern.segments
    stripe = Stripe(1, name, states.realisation, size, count, segments, states.eviction_file)
    return State(name, name, axes, nominal, (stripe,))
