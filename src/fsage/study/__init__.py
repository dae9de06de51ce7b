"""A study: a question with its matrix, read from `config/<study>.yaml` and validated before it is planned.

`Study` has the keys of that file. Its blocks are in modules of their own: `cells`, `extra_cells`, `comparisons`.
`files` reads the file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core.core_schema import ValidationInfo

from fsage import recipes, workloads
from fsage.base import Json
from fsage.model import tuning
from fsage.recipes import State
from fsage.study.cells import Cell, CellAxes, Combination, check_number, shuffled
from fsage.study.cells import schemas as cells_schemas
from fsage.study.comparisons import (
    COMPARE,
    NAME,
    REPEAT,
    SHARE,
    TARGETS,
    Axes,
    Bind,
    Compare,
    Count,
    Filter,
    Headline,
    Mkfs,
    any_matches,
    any_means,
    check_states,
    find_state,
    means,
    of_cells,
    read_targets,
)
from fsage.study.extra_cells import (
    SENTINELS,
    TRACES,
    AdditionalCells,
    ReferenceReads,
    Sentinels,
    Traces,
    additional_schemas,
)
from fsage.text import yaml_text
from fsage.text.strict import (
    AnyOf,
    Levels,
    Problem,
    Problems,
    Strict,
    block_of,
    choice_of,
    problems_of,
    refuse,
    show,
    unknown_value,
)

MOST_STATES = 10_000
MOST_ENTRIES = 100
"""Most entries of a list that each cell or state is compared with."""
READ_BESIDE: dict[str, tuple[Callable[[object, Any], object], str]] = {
    "sentinels": (Sentinels.read, "cells"),
    "traces": (Traces.read, "cells"),
    "compare": (Compare.read, "states"),
}
"""Blocks that are read beside another block, and which."""


class StudyError(ValueError):
    """A study, or a request for it, is not possible: one sentence a line, no traceback needed."""


def _read_states(block: object) -> BaseModel:
    model = recipes.load(choice_of(block_of(block), "recipe", recipes.names())).States
    try:
        states = model.model_validate(block)
    except ValidationError as error:
        refuse(problems_of(error, model))
    counts = {}
    for key, levels in states:
        if key == "structures" and isinstance(levels, dict):
            counts[key] = max(levels.values(), default=1)
        elif key == "structures":
            counts[key] = levels
        elif isinstance(levels, tuple):
            counts[key] = len(levels) or 1
    how = " x ".join(f"{count} of {key}" for key, count in counts.items() if count > 1)
    check_number(math.prod(counts.values()), how, MOST_STATES, "states")
    return states


def _state_schemas(handler: GetJsonSchemaHandler) -> list[Json]:
    """The JSON schemas of `states:`, one of each recipe."""
    blocks: list[Json] = []
    for name in recipes.names():
        model: Any = recipes.load(name).States
        block = handler.resolve_ref_schema(handler(model.__pydantic_core_schema__))
        blocks.append({**block, "required": ["recipe", *block.get("required", ())]})
    return blocks


if TYPE_CHECKING:
    _Tuning = dict[str, int | str]
else:
    _Tuning = dict[Literal[*tuning.NAMES], int | str]


def _read_tuning(block: Any) -> dict[str, object]:
    with Problems() as wrong:
        for name, value in block_of(block).items():
            why = tuning.invalid_because(name, value)
            if why is not None:
                wrong.add(str(name), why)
    return dict(block)


class Study(Strict):
    """A study file; `expanded` are its states and `cells_of(state)` what is measured in each."""

    name: Annotated[str, NAME, Field(description="the file's name; names results too")]
    title: str = Field(description="heads the report")
    question: str = Field(description="what the study answers, in a sentence")
    target: Annotated[str, TARGETS] | None = Field(
        None,
        description="default target (inventories/<target>), or several with commas; null: this machine's",
    )
    targets: Annotated[
        object, PlainValidator(read_targets, json_schema_input_type=Literal["share", "repeat"] | Bind)
    ] = Field(
        REPEAT,
        description="what several targets are for. Share: each measures a part of the states, and all measure the "
        "states that the headline compares. Repeat: each measures all. Bind: each measures levels of an axis",
    )
    states: Annotated[Any, AnyOf(_state_schemas, _read_states)] = Field(description="what the target must be")
    mkfs: Annotated[tuple[Mkfs, ...], Levels(0)] = Field(
        (),
        description="options of mkfs, such as '-O bigalloc -C 65536', or default: each state is made with each of "
        "them, on targets whose file system fsage makes",
    )
    cells: Annotated[Any, AnyOf(cells_schemas, CellAxes.read)] = Field(description="what is measured in each state")
    additional_cells: list[Annotated[Any, AnyOf(additional_schemas, AdditionalCells.read)]] = Field(
        [], description="additional cells of another workload, in all states or in the named ones"
    )
    sentinels: Annotated[Any, SENTINELS] | None = Field(
        None, description="one cell that is repeated in each state, to show drift; null: none"
    )
    reference_reads: ReferenceReads | None = Field(
        None, description="one range of the device, read before and after each state; null: none"
    )
    traces: Annotated[Any, TRACES] | None = Field(
        None, description="cells whose requests to the device are recorded; null: none"
    )
    only: list[Json] = Field([], description="keep the combinations that match one of these; []: all")
    exclude: list[Json] = Field([], description="leave out the combinations that match one of these")
    tuning: Annotated[dict[str, object], PlainValidator(_read_tuning, json_schema_input_type=_Tuning)] = Field(
        {}, description="client tunables of the block queue or of Lustre, by name"
    )
    order_seed: int = Field(1, description="seed of the order of cells within a state, and of states")
    state_order: Literal["planned", "drawn"] = Field(
        "planned",
        description="drawn: in a random order, but states of which one is reached from another stay together",
    )
    warm_up: bool = Field(False, description="measure one cell of the first state once more before all, uncounted")
    headline: Annotated[list[Headline], Field(max_length=MOST_ENTRIES)] = Field(
        [], description="what the report says first"
    )
    count: Count = Field(Count.model_validate({}), description="what `fsage count` does with it, which times nothing")
    compare: COMPARE = Field(None, description="another study to compare with; null: none")

    _narrowed: list[Filter] = PrivateAttr([])
    _turns: bool = PrivateAttr(False)

    @property
    def turns(self) -> bool:
        """Whether states are visited in turns (`load_study`)."""
        return self._turns

    @property
    def is_narrowed(self) -> bool:
        """Whether this is a part of the study."""
        return bool(self._narrowed)

    # What depends on other blocks is read only where these are in order: their own problems are said first.

    @field_validator("sentinels", "traces", "compare")
    @classmethod
    def _read_beside(cls, block: object, info: ValidationInfo) -> object:
        read, needed = READ_BESIDE[str(info.field_name)]
        other = info.data.get(needed)
        if other and block is not None:
            return read(block, other)
        return None

    @field_validator("only", "exclude", mode="plain")
    @classmethod
    def _read_filters(cls, block: object, info: ValidationInfo) -> list[Filter]:
        if not isinstance(block, list):
            raise ValueError(f"{show(block)} is not a list, such as [{{capacity: 80}}]")
        if len(block) > MOST_ENTRIES:
            raise ValueError(f"a list of {len(block):,} entries; allowed are at most {MOST_ENTRIES}")
        if not block or not {"states", "cells"} <= info.data.keys():
            return []
        axes = Axes(info.data["states"], info.data["cells"], info.data.get("mkfs", ()))
        filters: list[Filter] = []
        with Problems() as wrong:
            for index, entry in enumerate(block):
                with wrong.at(index):
                    filters.append(axes.read(entry))
        return filters

    @field_validator("headline")
    @classmethod
    def _read_headline(cls, lines: list[Headline], info: ValidationInfo) -> list[Headline]:
        planned = info.data.get("cells")
        if not planned:
            return lines
        read: list[Headline] = []
        with Problems() as wrong:
            for index, line in enumerate(lines):
                with wrong.at(index, "at"):
                    read.append(line.model_copy(update={"at": planned.params_of(line.at)}))
        return read

    @model_validator(mode="after")
    def _holds_together(self) -> Study:
        blocks = [self.cells, *(additional.cells for additional in self.additional_cells)]
        states = len(recipes.load(self.states.recipe).expand(self.states)) * max(1, len(self.mkfs))
        a_state = sum(block.count for block in blocks)
        check_number(states * a_state, f"{states:,} states of {a_state:,} cells")
        names = [state.name for state in self.expanded]
        if not names:
            refuse([Problem(("only",), "together with 'exclude' this leaves no cell to measure")])
        [(name, alike)] = Counter(names).most_common(1)
        if alike > 1:
            refuse([Problem(("states",), f"{alike} are called {name!r}, and a name is of one: change a seed or level")])
        with Problems() as wrong:
            for block in blocks:
                with wrong.at("cells"):
                    workloads.rates_of(block.combinations[0].params)
            for index, pair in enumerate(self.headline):
                meant: list[list[str]] = []
                for key in ("state", "against"):
                    with wrong.at("headline", index, key):
                        meant.append(find_state(getattr(pair, key), names))
                if meant and meant == [meant[0]] * 2:
                    wrong.add(("headline", index, "against"), f"{show(pair.against)} is the state itself: name another")
                for text in pair.missed_by([combination.params for combination in self.cells.combinations]):
                    wrong.add(("headline", index), text)
            self._check_dealt(wrong)
            if self.traces:
                check_states(wrong, "traces", self.traces.states, names)
            for number, additional in enumerate(self.additional_cells):
                check_states(wrong, f"additional_cells[{number}]", additional.states, names)
            used = {additional.cells.workload for additional in self.additional_cells}
            if len(used) < len(self.additional_cells):
                wrong.add("additional_cells", "a workload stands there twice: give its levels in one block")
        return self

    def _check_dealt(self, wrong: Problems) -> None:
        """Note why several targets could not be what `targets` says."""
        if isinstance(self.targets, Bind):
            axes = [axis for axis in self.expanded[0].axes if all(axis in state.axes for state in self.expanded)]
            if self.targets.bind not in axes:
                wrong.add(
                    ("targets", "bind"),
                    unknown_value(self.targets.bind, axes or ["none, for all states share no axis"]),
                )
        if self.targets == SHARE and not self.headline:
            wrong.add(
                "targets", "targets that share states all measure those that 'headline' compares, and it is empty"
            )

    @cached_property
    def expanded(self) -> list[State]:
        """The states in planned order, without those that its filters leave no cell."""
        return recipes.expand(self)

    def _anew(self) -> Study:
        """A copy whose states are expanded anew."""
        study = self.model_copy()
        study.__dict__.pop("expanded", None)
        return study

    def combinations(self, state: State) -> tuple[Combination, ...]:
        """Return the planned cells of a state that `only` and `exclude` leave, not yet in an order."""
        layout = state.nominal.get("structure"), state.layouts
        every = self.cells.of_state(*layout)
        for additional in self.additional_cells:
            if not additional.states or any_means(additional.states, state.name):
                every += additional.of_state(*layout)
        for filters in (self.only, self._narrowed):
            if filters:
                of_state = of_cells(filters, state)
                every = tuple(cell for cell in every if any_matches(of_state, cell))
        if self.exclude:
            excluded = of_cells(self.exclude, state)
            every = tuple(cell for cell in every if not any_matches(excluded, cell))
        return every

    def in_turns(self) -> Study | None:
        """The study with each state visited in turns; None where one has no structure of its own: it is built once."""
        study = self._anew()
        if hasattr(study.states, "visit_each"):
            study.states.visit_each()
        if not all("structure" in state.nominal for state in study.expanded):
            return None
        study = study._anew()
        study._turns = True
        return study

    def narrowed(self, entry: object) -> Study:
        """The study with fewer levels: `entry` is one of `only`, such as {"capacity": 80}. Raises StudyError.

        Numbers may be text, as a command line gives them; a kernel "5.10" is no number.
        """
        study = self._anew()
        where = f"study {self.name}: only"
        try:
            axes = Axes(self.states, self.cells, self.mkfs)
            study._narrowed = [axes.read(_typed(entry, axes.words))]
        except ValidationError as error:
            raise StudyError("\n".join(f"{where}: {problem}" for problem in problems_of(error))) from None
        except ValueError as error:
            raise StudyError(f"{where}: {error}") from None
        if not study.expanded:
            raise StudyError(f"{where}: {entry} leaves no cell to measure")
        return study

    def comparisons_of(self, name: str) -> list[Headline]:
        """The primary comparisons of a state."""
        return [pair for pair in self.headline if means(pair.state, name) or means(pair.against, name)]

    def without_watch(self) -> Study:
        """The study for a device that never changes: without the cells that watch for that."""
        return self.model_copy(update={"sentinels": None, "reference_reads": None, "warm_up": False})

    def cells_of(self, state: State, first: bool = False) -> list[Cell]:
        """Return the cells of a state in the order of measuring, diagnostic cells among them; `first` of all states.

        Planned ones come by the seed.
        """
        combinations = self.combinations(state)
        planned = shuffled(combinations, f"{self.order_seed}/{state.name}/")
        cells: list[tuple[str, str, dict[str, object]]] = []
        if self.warm_up and first:
            cells.append(("warm_up", "warm_up", combinations[0].params))
        if self.reference_reads:
            cells.append(self.reference_reads.cell(1))
        for number, combination in enumerate(planned):
            if self.sentinels and number % self.sentinels.every == 0:
                cells.append(self.sentinels.cell(number // self.sentinels.every + 1))
            cells.append((combination.name, "planned", combination.params))
        if self.sentinels and planned and len(planned) % self.sentinels.every == 0:
            cells.append(self.sentinels.cell(len(planned) // self.sentinels.every + 1))
        if self.traces and self.traces.of_state(state.name, state.nominal.get("structure", 1) == 1):
            cells.append(self.traces.cell())
        if self.reference_reads:
            cells.append(self.reference_reads.cell(2))
        return [Cell(*cell, order) for order, cell in enumerate(cells, 1)]


def _typed(value: object, words: set[str]) -> object:
    """What text means in YAML, in blocks and lists too; of these words, the text itself."""
    if isinstance(value, dict):
        return {key: _typed(part, words) for key, part in value.items()}
    if isinstance(value, list):
        return [_typed(part, words) for part in value]
    if not isinstance(value, str) or value in words:
        return value
    try:
        return yaml_text.load(value)
    except yaml.YAMLError as error:
        raise ValueError(f"{show(value)}: {yaml_text.explain(error)}") from None
