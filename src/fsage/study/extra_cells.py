"""Cells beside the planned ones, that show what else happened: counted apart, never pooled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from fsage import workloads
from fsage.base import Json
from fsage.study.cells import (
    CLOSED,
    COUNT,
    CellAxes,
    Combination,
    check_division,
    check_keys,
    level_text,
    of_workload,
)
from fsage.study.cells import schema as cells_schema
from fsage.study.comparisons import any_means
from fsage.text.strict import AnyOf, Problems, Strict, block_of, count_of, names_of, refuse


class ReferenceReads(Strict):
    """Block `reference_reads:`: one range of the device, read before and after each state: drift between states.

    Nothing that a study does changes what it reads, so whatever changes is the device or the machine.
    """

    position: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="where the range lies: 0 the device's beginning, 1 its end"
    )

    def cell(self, which: int) -> tuple[str, str, dict[str, object]]:
        """Return name, kind and parameters of the reference read before (1) or after (2) a state."""
        params = of_workload("device_range", position=self.position, iteration=which)
        return ("reference_before", "reference_after")[which - 1], "reference", params


@dataclass(frozen=True)
class Sentinels:
    """Block `sentinels:`: one cell again and again: one first, one after each `every` planned cells."""

    every: int
    params: dict[str, object]

    @classmethod
    def read(cls, block: object, planned: CellAxes) -> Sentinels:
        """Return the sentinels of a block; raises ValidationError with everything that is wrong in it."""
        every: Any = block_of(block).get("every")
        with Problems() as wrong:
            with wrong.at("every"):
                count_of(every)
            params = _one_cell(block, planned, "every", "sentinels", wrong)
        return cls(every, params)

    def cell(self, number: int) -> tuple[str, str, dict[str, object]]:
        """Return name, kind and parameters of the sentinel of that number, from 1."""
        return f"sentinel_{number}", "sentinel", {**self.params, "iteration": number}


@dataclass(frozen=True)
class Traces:
    """Block `traces:`: one more cell in each of `states`, whose device requests are noted one by one."""

    states: tuple[str, ...]
    params: dict[str, object]

    @classmethod
    def read(cls, block: object, planned: CellAxes) -> Traces:
        """Return the traces of a block; raises ValidationError with everything that is wrong in it."""
        states: tuple[str, ...] = ()
        traced = block_of(block)
        with Problems() as wrong:
            with wrong.at("states"):
                states = names_of(traced.get("states"), least=1)
            params = _one_cell(traced, planned, "states", "traced cells", wrong)
        return cls(states, {**params, "iteration": 1})

    def of_state(self, name: str, is_first: bool) -> bool:
        """Whether a state is traced. One layout shows where its requests go: the first, or one that is named itself."""
        return name in self.states or (is_first and any_means(self.states, name))

    def cell(self) -> tuple[str, str, dict[str, object]]:
        """Return name, kind and parameters."""
        return "traced_1", "traced", self.params


def _with_one_level(**own: object) -> AnyOf:
    """A block that names one cell: the `own` key, and one level of each parameter of a workload."""

    def shapes(handler: object) -> list[Json]:
        blocks: list[Json] = []
        for name in workloads.names():
            _, one_level = cells_schema(name)
            blocks.append({**CLOSED, "properties": {**own, **one_level}, "required": list(own)})
        return blocks

    return AnyOf(shapes)


SENTINELS = _with_one_level(every=COUNT)
TRACES = _with_one_level(states={"type": "array", "items": {"type": "string"}, "minItems": 1})
"""The JSON schemas of both blocks."""


def _one_cell(block: Any, planned: CellAxes, own: str, what: str, wrong: Problems) -> dict[str, object]:
    """Return the parameters of one cell; what the block leaves out is as in the planned cells, if alike in all.

    `own` is the block's key that is no parameter. Raises ValidationError, with the problems found before.
    """
    check_keys(wrong, block, [own, *planned.keys])
    levels = {}
    for key in planned.keys:
        with wrong.at(key):
            if key in block:
                key_levels = planned.read_levels(key, block[key])
            else:
                key_levels = planned.levels_of(key)
            if len(key_levels) > 1:
                texts = ", ".join(level_text(key, level) for level in key_levels)
                raise ValueError(f"{what} are all alike: give one level ({texts})")
            if key_levels:
                levels[key] = key_levels[0]
    with wrong.at():
        check_division((*planned.levels_of("transfer_size"), levels.get("transfer_size", 1)))
    if wrong.found:
        refuse(wrong.found)
    return planned.params(levels)


@dataclass(frozen=True)
class AdditionalCells:
    """One block of `additional_cells:`. `states` names those that have the cells; none: all have them."""

    states: tuple[str, ...]
    cells: CellAxes

    @classmethod
    def read(cls, block: Any) -> AdditionalCells:
        """Return what a block asks for; raises ValidationError with everything that is wrong in it."""
        rest = dict(block_of(block))
        with Problems() as wrong:
            with wrong.at("states"):
                states = names_of(rest.pop("states", []))
            with wrong.at():
                cells = CellAxes.read(rest)
                if cells.stop:
                    wrong.add("stop", "stands in 'cells' only")
        return cls(states, cells)

    def of_state(self, structure: int | None, layouts: int) -> tuple[Combination, ...]:
        """The cells of one state; their names begin with the workload's, so that they are no others'.

        What lies at no place, as `limits`, is not done again in a state that is built once.
        """
        prefix = f"{self.cells.workload}_"
        lies = "place" in self.cells.model.model_fields
        cells = self.cells.of_state(structure, layouts) if lies else self.cells.combinations
        return tuple(cell._replace(name=prefix + cell.name) for cell in cells)


def additional_schemas(handler: object) -> list[Json]:
    """Return the JSON schemas of one entry, one of each workload."""
    entries: list[Json] = []
    for name in workloads.names():
        block, _ = cells_schema(name)
        properties = {**block["properties"], "states": {"type": "array", "items": {"type": "string"}}}
        del properties["stop"]
        entries.append({**block, "properties": properties})
    return entries
