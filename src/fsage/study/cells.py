"""The cells of a study: every combination of the levels in its block `cells:`, each with its iterations."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError

from fsage import workloads
from fsage.base import Json
from fsage.base.sizes import format_size
from fsage.text.strict import (
    SIZE_PATTERN,
    Problem,
    Problems,
    Strict,
    block_of,
    choice_of,
    count_of,
    problems_of,
    read_levels,
    read_size,
    refuse,
    scalar_of,
    show,
    unknown_key,
)

_IN_A_NAME = re.compile(r"[\w.,+=-]+", re.ASCII)
COUNT = {"type": "integer", "minimum": 1, "maximum": 10_000}  # in JSON schemas, as CLOSED
CLOSED = {"type": "object", "additionalProperties": False}
MOST_PLACES = 99
MOST = 50_000
"""Cells of a study: twenty times our largest one."""
_ITS_OWN = ("workload", "iteration", "place")  # parameters that a block does not give as such
ONE_EACH = "one_each"


class Cell(NamedTuple):
    """One measurement: `kind` planned or one of fsage.study.extra_cells, `order` its place (from 1) in its state.

    `params` are shared between states: read them, do not change them.
    """

    name: str
    kind: str
    params: Json
    order: int

    @property
    def group(self) -> str:
        """What cells that differ in the iteration alone have in common."""
        return json.dumps({**self.params, "iteration": None, "place": None}, sort_keys=True)


class Combination(NamedTuple):
    """A planned cell before it has a place; `levels` are what `only` and `exclude` speak of."""

    name: str
    levels: dict[str, object]
    params: dict[str, object]


NOT_NEEDED = "not needed: the interval of the median was narrower than"


class Stop(Strict):
    """Block `stop:` of `cells:`: when iterations are enough. `iterations` is then the least that is measured."""

    interval_percent: Annotated[float, Field(gt=0, le=200)] = Field(
        description="stop when every rate's interval is narrower than this share of the median"
    )
    iterations_at_most: Annotated[int, Field(ge=5, le=10_000)] = Field(
        description="most iterations, however wide the interval is"
    )

    @property
    def reason(self) -> str:
        """How the reason of a cell begins that this rule leaves out."""
        return f"{NOT_NEEDED} {self.interval_percent:g}% of it"


@dataclass(frozen=True)
class CellAxes:
    """Block `cells:`: the parameters of a workload, `fixed` if given as a value, `axes` if given as a list.

    A cell is named after its axes in alphabetical order, those with one level too. Sizes are bytes. Iteration i lies at
    place i, counted anew after the last of the `places`. 0 (one_each): layout k has iteration k alone, at place k.
    """

    workload: str
    model: type[BaseModel]
    iterations: int
    places: int
    stop: Stop | None
    fixed: dict[str, object]
    axes: dict[str, tuple[object, ...]]

    @classmethod
    def read(cls, block: Any) -> CellAxes:
        """Return the axes of a block; raises ValidationError with everything that is wrong in it."""
        workload = choice_of(block_of(block), "workload", workloads.names())
        model = workloads.load(workload).Params
        keys = _keys(model)
        places = 1
        iterations = 1
        stop = None
        axes: dict[str, tuple[object, ...]] = {}
        fixed: dict[str, object] = {}
        with Problems() as wrong:
            check_keys(wrong, block, ["workload", *keys, "iterations", "places", "stop"])
            with wrong.at("places"):
                places = _places(block.get("places", 1), model)
            with wrong.at("iterations"):
                iterations = count_of(block.get("iterations", places or 1))
                if iterations < places:
                    raise ValueError(f"{iterations} do not reach {places} places: each iteration lies at one of them")
            with wrong.at("stop"):
                stop = _stop(block.get("stop"), iterations)
            for key in sorted(block.keys() & set(keys)):
                with wrong.at(key):
                    levels = _levels(model, key, block[key])
                    if isinstance(block[key], list) and not _is_list(model, key):
                        axes[key] = levels
                    else:
                        fixed[key] = levels[0]
        cells = cls(workload, model, iterations, places, stop, fixed, axes)
        check_number(cells.count, f"{_product(axes)} x {cells.budget} iterations")
        check_division(cells.levels_of("transfer_size"))
        _ = cells.combinations  # made here, so that what is wrong with one is said here
        return cells

    @property
    def budget(self) -> int:
        """Iterations that are planned: with a stop rule, those that it may skip too."""
        if self.stop:
            return self.stop.iterations_at_most
        return self.iterations

    @property
    def count(self) -> int:
        """How many cells a state has, before any filter."""
        return math.prod(map(len, self.axes.values())) * self.budget

    @property
    def keys(self) -> list[str]:
        """Parameters that can be given."""
        return _keys(self.model)

    def read_levels(self, key: str, value: object) -> tuple[Any, ...]:
        """Return levels of a parameter as written elsewhere in the study; raises ValueError."""
        return _levels(self.model, key, value)

    def params_of(self, levels: Json) -> Json:
        """Return parameters as cells have them, of levels written elsewhere in the study; raises ValidationError."""
        params: Json = {}
        with Problems() as wrong:
            for key, value in levels.items():
                with wrong.at(key):
                    if key not in self.keys:
                        raise ValueError(unknown_key(key, self.keys))
                    level, *others = self.read_levels(key, value)
                    if others:
                        raise ValueError("has several levels: give one")
                    params[key] = list(level) if isinstance(level, tuple) else level
        return params

    def levels_of(self, key: str) -> tuple[Any, ...]:
        """Return the levels of a parameter, whether given as a list or as a value; none if not given."""
        if key in self.fixed:
            return (self.fixed[key],)
        return self.axes.get(key, ())

    def params(self, levels: dict[str, object]) -> dict[str, object]:
        """Return all parameters of a cell, the workload's defaults filled in; raises ValidationError."""
        return of_workload(self.workload, **{**self.fixed, **levels, "iteration": 1})

    @cached_property
    def combinations(self) -> tuple[Combination, ...]:
        """All planned cells of a state with one layout, level by level."""
        return self.numbered(self.budget, self.places or 1)

    def of_state(self, structure: int | None, layouts: int) -> tuple[Combination, ...]:
        """The same of one of several layouts, or of a state that is built once (None) in place of so many."""
        if not self.places:
            every = self.numbered(layouts, layouts)
            return tuple(cell for cell in every if structure in (None, cell.levels["iteration"]))
        if structure or layouts == 1:
            return self.combinations
        return self.numbered(max(self.budget, layouts), max(self.places, layouts) if self.places > 1 else 1)

    def numbered(self, iterations: int, places: int) -> tuple[Combination, ...]:
        """So many iterations of each combination, one after the other at one of so many places."""
        cells = []
        for label, levels, params in self._validated:
            for number in range(1, iterations + 1):
                sample = {"iteration": number, "place": (number - 1) % places + 1}
                of_cell = {**params, "iteration": number}
                if "place" in params:
                    of_cell |= sample
                cells.append(Combination(f"{label}i{number}", {**self.fixed, **levels, **sample}, of_cell))
        return tuple(cells)

    @cached_property
    def _validated(self) -> tuple[tuple[str, dict[str, object], dict[str, object]], ...]:
        """The name, levels and parameters of each combination, validated once."""
        made = []
        problems: dict[Problem, None] = {}  # in order, each once
        for values in itertools.product(*self.axes.values()):
            levels = dict(zip(self.axes, values, strict=True))
            try:
                params = self.params(levels)
            except ValidationError as error:
                problems |= dict.fromkeys(self._at_level(problem, levels) for problem in problems_of(error, self.model))
                continue
            label = "".join(f"{key}-{_name(key, value)}_" for key, value in levels.items())
            made.append((label, levels, params))
        if problems:
            refuse(problems)
        return tuple(made)

    def _at_level(self, problem: Problem, levels: dict[str, object]) -> Problem:
        key, *rest = problem.loc or [""]
        if key not in self.axes:
            return problem
        return Problem((key, self.axes[key].index(levels[key]), *rest), problem.text)


def of_workload(name: str, **given: object) -> dict[str, object]:
    """Return all parameters of a cell of that workload, its defaults filled in; raises ValidationError."""
    return workloads.load(name).Params.model_validate({"workload": name, **given}, strict=True).model_dump(mode="json")


def check_keys(wrong: Problems, block: Json, keys: Collection[str]) -> None:
    """Note the keys of a block that it does not have."""
    for key in block:
        if key not in keys:
            wrong.add(key, unknown_key(key, keys))


def check_number(count: int, how: str, most: int = MOST, what: str = "cells") -> None:
    """Raise ValueError for more cells, or states, than a study may have, before they are made; `how` they multiply."""
    if count > most:
        raise ValueError(f"{how} make {count:,} {what}; allowed are {most:,} at most: give fewer levels")


def _product(axes: dict[str, tuple[object, ...]]) -> str:
    return " x ".join(f"{len(levels)} of {key}" for key, levels in axes.items()) or "1 cell"


def check_division(transfer_sizes: Iterable[int]) -> None:
    """Raise ValidationError unless each divides the largest: what a cell moves is a multiple of that one."""
    sizes = list(transfer_sizes)
    largest = max(sizes, default=1)
    odd = ", ".join(format_size(size) for size in sizes if largest % size)
    if odd:
        verb = "do" if "," in odd else "does"
        text = f"{odd} {verb} not divide {format_size(largest)}, the largest; a cell moves multiples of that one"
        refuse([Problem(("transfer_size",), text)])


def level_text(key: str, level: Any) -> str:
    """Return a level as it is written in a study and in the names of cells."""
    if level is None:
        return "null"
    if _is_size(key):
        return format_size(level)
    if isinstance(level, bool):
        return str(level).lower()
    return str(level)


def schemas(handler: object) -> list[Json]:
    """Return the JSON schemas of `cells:`, one of each workload."""
    return [schema(name)[0] for name in workloads.names()]


def schema(name: str) -> tuple[Json, Json]:
    """Return the JSON schema of `cells:` for one workload, and the shapes of one level of each parameter."""
    model = workloads.load(name).Params
    described = model.model_json_schema()
    one_level: Json = {}
    many: Json = {}
    for key in _keys(model):
        shape = dict(described["properties"][key])
        about = {part: shape.pop(part) for part in ("description", "default") if part in shape}
        if _is_size(key):
            shape = {"type": "string", "pattern": SIZE_PATTERN}
        one_level[key] = shape
        if _is_list(model, key):
            many[key] = {**shape, **about}
        else:
            many[key] = {"anyOf": [shape, {"type": "array", "items": shape, "minItems": 1}], **about}
    needed = [key for key in described.get("required", ()) if key in many]
    stop = {
        "anyOf": [Stop.model_json_schema(), {"type": "null"}],
        "default": None,
        "description": "when iterations are enough; `iterations` is then the least; null: all are measured",
    }
    iterations = {
        **COUNT,
        "default": 1,
        "description": "how often each combination is measured in each layout; by default once at each place",
    }
    places = {
        "anyOf": [{**COUNT, "maximum": MOST_PLACES}, {"const": ONE_EACH}],
        "default": 1,
        "description": "how many files are left in a layout one after the other, each a sample of another place. "
        "one_each: layout k has iteration k alone, at place k. A state that is built once has as many places as the "
        "others have layouts, if these are more",
    }
    if "place" in model.model_fields:
        takes_places = {"places": places}
    else:
        takes_places = {}
    cells = {"workload": {"const": name}, **many, "iterations": iterations, **takes_places, "stop": stop}
    return {**CLOSED, "properties": cells, "required": ["workload", *needed]}, one_level


def _places(value: object, model: type[BaseModel]) -> int:
    if value != 1 and "place" not in model.model_fields:
        raise ValueError(f"{show(value)}: this workload leaves no files; leave it out")
    if value == ONE_EACH:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_PLACES:
        raise ValueError(f"{show(value)} is neither a whole number from 1 to {MOST_PLACES} nor {ONE_EACH}")
    return value


def _stop(block: object, iterations: int) -> Stop | None:
    if block is None:
        return None
    try:
        stop = Stop.model_validate(block)
    except ValidationError as error:
        refuse(problems_of(error, Stop))
    if stop.iterations_at_most <= iterations:
        text = f"{stop.iterations_at_most} is not more than the {iterations} iterations that are measured in any case"
        refuse([Problem(("iterations_at_most",), text)])
    return stop


def _keys(model: type[BaseModel]) -> list[str]:
    return [key for key in model.model_fields if key not in _ITS_OWN]


def _levels(model: type[BaseModel], key: str, value: object) -> tuple[object, ...]:
    if not _is_list(model, key):
        read = read_size if _is_size(key) else scalar_of
        may_be_null = type(None) in get_args(model.model_fields[key].annotation)
        return read_levels(value, lambda level: None if level is None and may_be_null else read(level))
    if not isinstance(value, list):
        raise ValueError(f"{show(value)} is not a list, such as [a, b]")
    kind: Any = get_origin(model.model_fields[key].annotation)
    return (kind(value),)  # a parameter that is a list: one level


def _is_list(model: type[BaseModel], key: str) -> bool:
    return get_origin(model.model_fields[key].annotation) in (tuple, list)


def _is_size(key: str) -> bool:
    return key.endswith(("_size", "_bytes"))


def _name(key: str, level: object) -> str:
    text = level_text(key, level)
    if not _IN_A_NAME.fullmatch(text):
        refuse([Problem((key,), f"{show(level)} cannot be in a file's name: use letters, digits and . , + = _ -")])
    return text


def shuffled(combinations: Iterable[Combination], salt: str) -> list[Combination]:
    """Order by a number drawn for each cell alone: levels added later leave the others in their order."""
    salted = hashlib.sha256(salt.encode())

    def drawn(combination: Combination) -> bytes:
        own = salted.copy()
        own.update(combination.name.encode())
        return own.digest()

    return sorted(combinations, key=drawn)
