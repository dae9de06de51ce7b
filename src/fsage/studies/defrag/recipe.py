"""Defragmentation: a file in many extents on a full file system, before and after it is defragmented."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsage.api.model import Step
from fsage.api.study import Levels, Problems, Seed, Size, SizeInBlocks, State, Strict
from fsage.studies.paf.model import FILES_AT_ONCE, METHOD, REQUEST_BYTES, Method, Populate
from fsage.studies.paf.recipe import AT_ONCE_HELP, METHOD_HELP, REQUEST_HELP, FilesAtOnce

from .model import Defragment, FragmentedFile, FreeReservedRun

BEFORE: Literal["before"] = "before"


class States(Strict):
    """Block `states:` of a study: for each number of extents the file as it is, and defragmented in each scope."""

    filler: Method = Field(METHOD, description=METHOD_HELP)
    request_size: SizeInBlocks = Field(REQUEST_BYTES, description=REQUEST_HELP)
    files_at_once: FilesAtOnce = Field(FILES_AT_ONCE, description=AT_ONCE_HELP)
    recipe: Literal["defrag"] = "defrag"
    extents: Annotated[tuple[Annotated[int, Field(ge=2, le=1_000_000, strict=True)], ...], Levels()] = Field(
        description="number of extents of the file"
    )
    scope: Annotated[tuple[Literal["file", "filesystem"], ...], Levels()] = Field(
        ("file",), description="what is defragmented: the file alone, or all files"
    )
    capacity: Annotated[int, Field(ge=2, le=99)] = Field(95, description="fullness of the file system")
    file_percent: Annotated[int, Field(ge=1, le=49)] = Field(4, description="the file's share of the capacity")
    file_size: Size = Field(description="nominal size of the other files; the target's scale applies")
    time_limit_s: Annotated[int, Field(ge=1)] = Field(600, description="time limit for the tools that defragment")
    seed: Seed | None = Field(None, description="seed of the files; null: drawn once and recorded")
    reuse: Literal["nested", "fresh"] = Field(
        "nested", description="nested: the next state defragments the file of the state before"
    )

    @model_validator(mode="after")
    def _there_is_room(self) -> States:
        with Problems() as wrong:
            if 2 * self.file_percent >= self.capacity:
                wrong.add("file_percent", f"twice {self.file_percent}% must be below {self.capacity}%")
            if self.file_percent >= 100 - self.capacity:
                text = f"{self.file_percent}% fit into no free run of a file system that is {self.capacity}% full"
                wrong.add("file_percent", text)
        return self


def expand(states: States) -> list[State]:
    """Return, for each number of extents, the state before and one for each scope."""
    return [_state(states, extents, scope) for extents in states.extents for scope in (BEFORE, *states.scope)]


def _state(states: States, extents: int, scope: Literal["before", "file", "filesystem"]) -> State:
    file = FragmentedFile(1, states.file_percent, extents)
    others_percent = states.capacity - 2 * states.file_percent
    way = (states.filler, states.request_size, states.files_at_once)
    others = Populate(2, others_percent, (states.file_size,), states.seed, *way)
    parts: tuple[Step, ...] = (file, others, FreeReservedRun(1))
    if scope != BEFORE:
        parts += (Defragment(1, scope, states.time_limit_s),)
    nominal = {
        "recipe": "defrag",
        "capacity_percent": states.capacity,
        "fullness_percent": states.capacity,
        "reference": f"{extents}.{BEFORE}",
        "axes": {"extents": extents, "scope": scope},
    }
    axes: dict[str, object] = {"extents": extents, "scope": scope}
    return State(f"{extents}.{scope}", f"{extents}", axes, nominal, parts)
