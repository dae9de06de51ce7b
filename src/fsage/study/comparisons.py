"""What a study compares, which states that means, on how many targets, and what it counts.

Block `count:` of a study: how many layouts of each state are counted, and for which device a cost is computed.

States are compared with each other, and a study with another. The entries of `only` and `exclude` are subsets: each has
a few levels of a few axes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, WithJsonSchema, field_validator

from fsage import recipes, workloads
from fsage.base import Json, Refusal
from fsage.model.declaration import device_model
from fsage.recipes import State
from fsage.study.cells import CellAxes, Combination, level_text
from fsage.text.strict import (
    Problems,
    Spelled,
    Strict,
    block_of,
    count_of,
    nearest,
    problems_of,
    read_levels,
    refuse,
    scalar_of,
    show,
    unknown_key,
    unknown_value,
)

TARGETS = Spelled(
    r"[a-z][a-z0-9_-]{0,31}(,[a-z][a-z0-9_-]{0,31}){0,63}", "a folder of inventories/, or several as in a,b"
)
SHOWN_NAMES = 8
"""So many names a message lists at most."""
SHARE = "share"
REPEAT = "repeat"
"""Each measures a part of the states; each measures all."""


class Bind(Strict):
    """Targets that stand for the levels of an axis of the states, one each: four servers with a preallocation each."""

    bind: str = Field(description="an axis of the states; the targets get its levels in turn")


def read_targets(block: object) -> object:
    """Return 'share', 'repeat' or a Bind; raises ValueError or ValidationError for anything else."""
    if block in (SHARE, REPEAT):
        return block
    if not isinstance(block, dict):
        raise ValueError(unknown_value(block, [SHARE, REPEAT, "{bind: AXIS}"]))
    try:
        return Bind.model_validate(block)
    except ValidationError as error:
        refuse(problems_of(error, Bind))


Mkfs = Annotated[
    str,
    Spelled(
        r"(default|-[A-Za-z] [\w.=,:^]+( -[A-Za-z] [\w.=,:^]+){0,7})",
        "an option with a value that is no path, such as '-b 1024', nor default",
    ),
]
"""A level of the axis `mkfs`: up to eight options with their values."""
LAYOUTS = 30
MOST = 1000


class Count(Strict):
    """What `fsage count` counts."""

    layouts: Annotated[int, Field(ge=1, le=MOST)] = Field(
        LAYOUTS, description="how many layouts of each state, with seeds from the study's on"
    )
    places: Annotated[int, Field(ge=1, le=99)] = Field(
        1, description="how many files are left in a layout one after the other, each at a place of its own"
    )
    with_run: bool = Field(False, description="whether a run of the study counts too, after its cells")
    device: Json | None = Field(
        None,
        description="the device for which the cost is computed, as `device_model` of a target; null: the target's, or "
        "fsage's modelled disk (IOCost)",
    )

    @field_validator("device")
    @classmethod
    def _complete(cls, device: Json | None) -> Json | None:
        try:
            if device is None:
                return None
            return device_model(device, "device")
        except Refusal as why:
            raise ValueError(str(why)) from why


Filter = dict[str, tuple[object, ...]]
"""Axis -> levels; a combination matches that has one of them on every axis named."""


class Axes:
    """The axes of a study with their levels: what a filter may name."""

    def __init__(self, states: Any, cells: CellAxes, mkfs: Sequence[str]) -> None:
        self._states = type(states)
        self._cells = cells
        expanded = recipes.load(states.recipe).expand(states)
        self.levels = levels_of_states(expanded)
        if mkfs:
            self.levels["mkfs"] = list(mkfs)
        for key in (*cells.axes, *cells.fixed):
            self.levels[key] = list(cells.levels_of(key))
        layouts = max(state.layouts for state in expanded)
        self.levels["iteration"] = list(range(1, max(cells.budget, layouts) + 1))

    @property
    def words(self) -> set[str]:
        """The levels that are text."""
        words: set[str] = set()
        for levels in self.levels.values():
            words |= {level for level in levels if isinstance(level, str)}
        return words

    def read(self, entry: Any) -> Filter:
        """Return the filter of one entry; ValidationError for axes and levels that the study has not."""
        if not block_of(entry):
            raise ValueError("an empty entry would match everything")
        result: Filter = {}
        with Problems() as wrong:
            for key, value in entry.items():
                with wrong.at(key):
                    if key not in self.levels:
                        raise ValueError(unknown_key(key, self.levels))
                    result[key] = self._read(key, value)
                    for level in result[key]:
                        if level not in self.levels[key]:
                            raise ValueError(self._unknown(key, level))
        return result

    def _read(self, key: str, value: object) -> tuple[object, ...]:
        if key == "iteration":
            return read_levels(value, count_of)
        # As the study has them: also those that nobody writes into it, such as what a recipe compares with.
        by_text = {level_text(key, level): level for level in self.levels[key]}
        parts = value if isinstance(value, list) else [value]
        texts = list(map(str, parts))
        if texts and by_text.keys() >= set(texts):
            return tuple(map(by_text.__getitem__, texts))
        if key in self._states.model_fields:
            return read_axis(self._states, key, value)
        if key in self._cells.keys:
            return self._cells.read_levels(key, value)
        return read_levels(value, scalar_of)  # an axis that the recipe makes of others, such as `holes`

    def _unknown(self, key: str, level: object) -> str:
        known = self.levels[key]
        texts = [level_text(key, axis_level) for axis_level in known]
        if not all(isinstance(number, int) for number in (level, *known)):
            return unknown_value(level_text(key, level), texts)
        near = min(known, key=lambda axis_level: abs(axis_level - level))
        return (
            f"{level_text(key, level)} is no level of this study; the nearest is {level_text(key, near)}; "
            f"allowed: {', '.join(texts)}"
        )


def levels_of_states(states: Iterable[State]) -> dict[str, list[Any]]:
    """Return the levels on each axis of the states."""
    levels: dict[str, list[Any]] = {}
    for state in states:
        for key, level in state.axes.items():
            of_axis = levels.setdefault(key, [])
            if level not in of_axis:
                of_axis.append(level)
    return levels


def read_axis(states: type[BaseModel], key: str, value: object) -> tuple[object, ...]:
    """Return levels of a state's axis, written as the recipe's own model takes them."""
    field = states.model_fields[key]
    annotation: Any = Annotated[field.annotation, *field.metadata]
    return TypeAdapter(annotation).validate_python(value)


def of_cells(filters: list[Filter], state: State) -> list[Filter]:
    """Return what the filters that match a state ask of its cells."""
    of_state = []
    for entry in filters:
        if all(level in entry.get(key, (level,)) for key, level in state.axes.items()):
            of_state.append({key: levels for key, levels in entry.items() if key not in state.axes})
    return of_state


def any_matches(filters: list[Filter], cell: Combination) -> bool:
    """Say whether a cell matches one of the filters; an axis that it has not does not match."""
    for entry in filters:
        if all(key in cell.levels and cell.levels[key] in levels for key, levels in entry.items()):
            return True
    return False


def means(text: str, name: str) -> bool:
    """Say whether 'AA.BB' or a whole name means the state of that name, or all of its repetitions with other seeds."""
    return text in (name, name.partition("@")[0], unseeded(name), unseeded(name).partition("@")[0])


def any_means(texts: Iterable[str], name: str) -> bool:
    """Say whether one of them means the state of that name."""
    return any(means(text, name) for text in texts)


def unseeded(name: str) -> str:
    """'80.50+67005@264M' -> '80.50@264M'."""
    return re.sub(r"\+\d+@", "@", name)


def check_states(wrong: Problems, block: str, texts: Iterable[str], names: list[str]) -> None:
    """Note what in the list `states` of a block means no state."""
    for index, text in enumerate(texts):
        with wrong.at(block, "states", index):
            find_state(text, names)


def known_names(text: str, names: list[str]) -> str:
    """Which states or cells may be meant by `text`, which often lacks a seed or a size; else which there are."""
    meant = [name for name in names if means(text, name)]
    if meant:
        return f"did you mean {' or '.join(map(repr, meant))}?"
    known = ", ".join(names[:SHOWN_NAMES])
    if len(names) > SHOWN_NAMES:
        known += f" and {len(names) - SHOWN_NAMES} more"
    near = nearest(text, names)
    if near:
        known += f";{near}"
    return f"it has {known}"


def find_state(text: str, names: list[str]) -> list[str]:
    """The state that `text` means, in all its layouts. Raises ValueError for none and for several."""
    matching = [name for name in names if means(text, name)]
    if not matching:
        hint = nearest(text, [*names, *(name.partition("@")[0] for name in names)])
        raise ValueError(f"{show(text)} is no state here;{hint} they go from {names[0]} to {names[-1]}")
    if len(set(map(unseeded, matching))) > 1:
        raise ValueError(f"{show(text)} may mean {' or '.join(matching)}: give the whole name")
    return matching


NAME = Spelled(r"[a-z][a-z0-9_]{0,31}", "a name of at most 32 of a-z, 0-9 and '_', a letter first")
"""The name of a study."""


class Headline(Strict):
    """What a report says first: `state` against `against`, each 'AA.BB' or the whole name of a state."""

    label: str = Field(description="how the report calls the comparison")
    state: str = Field(description="the state in question")
    against: str = Field(description="the state that it is compared with")
    measures: list[str] = Field([], description="rates that are compared, such as read_bw_mib_s; none: all rates")
    at: dict[str, object] = Field(
        {},
        description="one level each of some parameters of the cells, such as {direct: true}; none: all levels; "
        "only the largest transfer_size is compared",
    )

    @property
    def pair(self) -> frozenset[str]:
        """Both states in fixed order: the reversed comparison is the same test."""
        return frozenset((self.state, self.against))

    def meets(self, params: Mapping[str, object]) -> bool:
        """Whether a cell of these parameters is compared."""
        return all(params.get(key) == level for key, level in self.at.items())

    def takes(self, params: Mapping[str, object], measure: str) -> bool:
        """Whether a cell of these parameters is compared in this rate."""
        return self.meets(params) and (not self.measures or measure in self.measures)

    def missed_by(self, cells: Sequence[Mapping[str, Any]]) -> list[str]:
        """What it names that no cell of these parameters has, a sentence each."""
        largest = max(params.get("transfer_size") or 0 for params in cells)
        rates = {rate for params in cells for rate in workloads.rates_of(params)}
        is_met = any(self.meets(params) for params in cells if (params.get("transfer_size") or 0) == largest)
        wrong = []
        for measure in self.measures:
            if measure not in rates:
                wrong.append(f"'measures' names {show(measure)}: the cells have {', '.join(sorted(rates))}")
        if not is_met and not wrong:
            levels = ", ".join(f"{key}: {level_text(key, level)}" for key, level in self.at.items())
            wrong.append(f"no cell of the largest transfer_size, which is compared, has what 'at' names: {levels}")
        return wrong


COMPARE = Annotated[Any, WithJsonSchema({"type": ["object", "null"], "required": ["study"]})]
"""What block `compare:` is written as."""


@dataclass(frozen=True)
class Compare:
    """The study whose records stand beside ours, and the levels by which its states differ from ours."""

    study: str
    levels: dict[str, object]

    @classmethod
    def read(cls, block: Any, states: Any) -> Compare:
        """Return what a block names; raises ValidationError for axes that the states do not have."""
        expanded = recipes.load(states.recipe).expand(states)
        keys = type(states).model_fields.keys() - {"notation"}  # others a recipe makes itself, such as `holes`
        axes = [key for key in levels_of_states(expanded) if key in keys]
        levels = {}
        study: Any = block_of(block).get("study")
        with Problems() as wrong:
            if not isinstance(study, str) or not re.fullmatch(NAME.pattern, study):
                wrong.add("study", f"{show(study)} is not the name of a study")
            for key, value in block.items():
                if key == "study":
                    continue
                with wrong.at(key):
                    if key not in axes:
                        raise ValueError(unknown_key(key, ["study", *axes]))
                    levels[key], *others = read_axis(type(states), key, value)
                    if others:
                        raise ValueError("has several levels: give one")
        return cls(study, levels)
