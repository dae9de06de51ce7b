"""Striping: a file in layouts whose stripes grow at watermarks (dynamic), beside layouts that do not (static)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainValidator, model_validator

from fsage.recipes import State
from fsage.studies.striping import model as laid
from fsage.studies.striping import patterns
from fsage.studies.striping.patterns import Pattern, Written
from fsage.text.strict import Levels, Problem, Size, Spelled, Strict, noting, refuse, show, unknown_value

MOST_PERCENT = 50
MEMORY = "memory"


def _eviction_file(value: Any) -> float | str:
    if value == MEMORY or (type(value) in (int, float) and 0 < value <= MOST_PERCENT):
        return value
    raise ValueError(
        f"{show(value)} is not allowed: percent of the capacity, above 0 and at most {MOST_PERCENT}, or {MEMORY}"
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
    seed: Annotated[int, Field(ge=0)] | None = Field(0, description="without effect: nothing is drawn")
    reuse: Literal["nested", "fresh"] = Field(
        "nested", description="without effect: no layout is reached from another one"
    )

    @model_validator(mode="after")
    def _known(self) -> Self:
        problems: list[Problem] = []
        own: dict[str, Pattern] = {}
        if self.own and self.file_size is None:
            problems.append(Problem(("file_size",), "is missing, and the watermarks in 'own' relate to it"))
        for name, written in self.own.items():
            with noting(problems, "own", name):
                if name in patterns.known().named():
                    raise ValueError(f"{show(name)} is the name of a known pattern")
                own[name] = self._read(written, 1)
        sizes: dict[int, str] = {}
        for index, name in enumerate(self.pattern):
            if name in self.own and name not in own:
                continue  # said above
            with noting(problems, "pattern", index):
                sizes.setdefault(patterns.find(name, own).file_bytes, name)
        if len(sizes) > 1:
            text = f"{' and '.join(sizes.values())} are of files of different sizes: one factor cannot scale both"
            problems.append(Problem(("pattern",), text))
        shipped = patterns.known()
        of_sets = {number: name for name in self.pattern if (number := shipped.set_of(name)) is not None}
        if len(sizes) == 1 and len(of_sets) > 1:
            text = f"{' and '.join(of_sets.values())} are of sets with factors of their own: one cannot scale both"
            problems.append(Problem(("pattern",), text))
        if self.default not in self.pattern:
            problems.append(Problem(("default",), unknown_value(self.default, self.pattern)))
        if problems:
            refuse(problems)
        return self

    def patterns(self) -> dict[str, Pattern]:
        """The patterns of the study by name, in its order."""
        shipped = patterns.known().named()
        beside = [shipped[name].largest_count for name in self.pattern if name in shipped]
        # The set beside which they are measured decides, for there is one factor; else all of the study's own do.
        every = [self._read(written, 1).segments for written in self.own.values()]
        largest = beside[0] if beside else patterns.largest(every)
        own = {name: self._read(written, largest) for name, written in self.own.items()}
        return {name: patterns.find(name, own) for name in self.pattern}

    def _read(self, written: list[str], largest: int) -> Pattern:
        size = self.file_size or 1
        return Pattern(size, patterns.segments(written, size, patterns.known().types), largest)


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
    stripe = laid.Stripe(1, name, states.realisation, size, count, segments, states.eviction_file)
    return State(name, name, axes, nominal, (stripe,))
