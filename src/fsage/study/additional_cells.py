"""More planned cells beside a study's own, of another workload, in all states or in some: e.g. metadata rates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fsage.study.cells import CellAxes, Combination
from fsage.study.cells import schema as cells_schema
from fsage.text.strict import Problem, block_of, names_of, noting, refuse


@dataclass(frozen=True)
class Also:
    """One block of `also:`. `states` names those that have the cells; none: all have them."""

    states: tuple[str, ...]
    cells: CellAxes

    @classmethod
    def read(cls, block: Any) -> Also:
        """Return what a block asks for; raises ValidationError with everything that is wrong in it."""
        rest = {key: value for key, value in block_of(block).items() if key != "states"}
        problems: list[Problem] = []
        states: tuple[str, ...] = ()
        with noting(problems, "states"):
            states = names_of(block.get("states", []))
        cells = None
        with noting(problems):
            cells = CellAxes.read(rest)
        if cells and cells.stop:
            problems.append(Problem(("stop",), "stands in 'cells' only"))
        if problems or cells is None:
            refuse(problems)
        return cls(states, cells)

    @cached_property
    def combinations(self) -> tuple[Combination, ...]:
        """The cells of one state; their names begin with the workload's, so that they are no others'."""
        return tuple(one._replace(name=f"{self.cells.workload}_{one.name}") for one in self.cells.combinations)


def schema(name: str) -> dict[str, object]:
    """Return the JSON schema of one entry, for one workload."""
    block, _ = cells_schema(name)
    states = {"type": "array", "items": {"type": "string"}}
    properties = {key: value for key, value in block["properties"].items() if key != "stop"}
    return {**block, "properties": {**properties, "states": states}}
