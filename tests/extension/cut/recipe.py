"""A target filled to a share of its capacity, whose files are then cut to less and less of their size."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fsage.api.study import Levels, Size, State, Strict
from fsage.studies.paf.model import Populate

from .model import Cut


class States(Strict):
    """Block `states:` of a study: whole files, and every share that is kept of them."""

    recipe: Literal["cut"] = "cut"
    percent: Annotated[int, Field(ge=1, le=80)] = Field(description="how full the target is made")
    file_size: Size = Field(description="of each file")
    kept: Annotated[tuple[Annotated[int, Field(ge=1, le=99, strict=True)], ...], Levels()] = Field(
        description="how much of each file is kept, percent"
    )
    seed: Annotated[int, Field(ge=0)] | None = Field(None, description="of the order of making; null: drawn once")
    reuse: Literal["nested", "fresh"] = Field("nested", description="nested: files are cut further from what is left")


def expand(states: States) -> list[State]:
    """Return the states: whole, then cut to less and less."""
    return [_state(states, kept) for kept in (100, *sorted(states.kept, reverse=True))]


def _state(states: States, kept: int) -> State:
    populate = Populate(1, states.percent, (states.file_size,), states.seed, files_at_once=1)
    parts = (populate, Cut(1, kept)) if kept < 100 else (populate,)
    nominal = {"recipe": "cut", "reference": "100", "axes": {"kept": kept}, "fullness_percent": states.percent}
    return State(str(kept), "cut", {"kept": kept}, nominal, parts)
