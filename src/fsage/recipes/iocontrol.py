"""I/O control: files in pieces and whole ones for groups that share a device, before and after defragmentation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from fsage.recipes import BLOCK_BYTES, State
from fsage.sizes import format_size
from fsage.strict import Levels, Size, Strict

BEFORE, AFTER = "before", "after"


class States(Strict):
    """Block `states:` of a study: for each size of pieces the files as they are, and with the one defragmented."""

    recipe: Literal["iocontrol"] = "iocontrol"
    piece_size: Annotated[tuple[Size, ...], Levels()] = Field(description="of the file in pieces")
    stage: Annotated[tuple[Literal["before", "after"], ...], Levels()] = Field(
        ("before", "after"), description="before, and after the file in pieces was defragmented"
    )
    file_percent: Annotated[int, Field(ge=1, le=20)] = Field(
        5, description="each file's share of the capacity; four are made"
    )
    time_limit_s: Annotated[int, Field(ge=1)] = Field(600, description="for the tool that defragments")
    seed: Annotated[int, Field(ge=0)] | None = Field(None, description="nothing here is drawn")
    reuse: Literal["nested", "fresh"] = Field("nested", description="nested: what is defragmented is the file before")

    @field_validator("piece_size")
    @classmethod
    def _whole_blocks(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        odd = [size for size in sizes if size % BLOCK_BYTES]
        if odd:
            raise ValueError(f"{format_size(odd[0])} is no multiple of {format_size(BLOCK_BYTES)}, a block")
        return sizes


def expand(states: States) -> list[State]:
    """Return, for each size of pieces, the state before and the one after."""
    stages = [stage for stage in (BEFORE, AFTER) if stage in states.stage]
    return [_state(states, size_bytes, stage) for size_bytes in states.piece_size for stage in stages]


def _state(states: States, piece_bytes: int, stage: str) -> State:
    size = format_size(piece_bytes)
    readers = {"kind": "readers", "generation": 1, "percent": states.file_percent, "piece_bytes": piece_bytes}
    defragment = {"kind": "defragment", "generation": 1, "scope": "file", "time_limit_s": states.time_limit_s}
    parts = (readers,) if stage == BEFORE else (readers, defragment)
    nominal = {
        "recipe": "iocontrol",
        "fullness_percent": 4 * states.file_percent,
        "reference": f"{size}.{BEFORE}",
        "axes": {"piece_bytes": piece_bytes, "stage": stage},
    }
    axes: dict[str, Any] = {"piece_size": piece_bytes, "stage": stage}
    playbooks = ("tune_clients.yml", "scrub.yml", *(f"{part['kind']}.yml" for part in parts))
    return State(f"{size}.{stage}", size, axes, nominal, parts, playbooks)


def built(steps: list[dict[str, Any]], capacity_bytes: int) -> str:
    """Return what `steps` made of a target, e.g. files of 5%, one in pieces of 4K, file defragmented."""
    made, *rest = steps
    text = f"files of {made['percent']}%, one in pieces of {format_size(made['piece_bytes'])}"
    return text + "".join(f", {one['scope']} defragmented" for one in rest)
