"""I/O control: files in pieces and whole ones for groups that share a device, before and after defragmentation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsage.api.model import BLOCK_BYTES, Step, format_size
from fsage.api.study import Levels, Problems, Seed, Size, SizeInBlocks, State, Strict
from fsage.studies.defrag.model import Defragment

from .model import ContendedFiles, Sqlite

BEFORE = "before"
HOT = "hot"
AFTER = "after"
STAGES = (BEFORE, HOT, AFTER)


class States(Strict):
    """Block `states:` of a study: for each size of pieces the files as they are, and with the one defragmented."""

    recipe: Literal["iocontrol"] = "iocontrol"
    piece_size: Annotated[tuple[SizeInBlocks, ...], Levels()] = Field(
        description="size of the extents of the fragmented file"
    )
    stage: Annotated[tuple[Literal["before", "hot", "after"], ...], Levels()] = Field(
        ("before", "after"),
        description="before; after: the fragmented file was defragmented; hot: only its hot ranges were",
    )
    file_percent: Annotated[int, Field(ge=1, le=20)] = Field(
        5, description="share of the capacity of each of the four files"
    )
    hot_size: Size | None = Field(None, description="length of one hot range: what is read of the fragmented file")
    hot_percent: Annotated[int, Field(ge=1, le=99)] = Field(
        25, description="share of the file that is hot, in ranges at equal distances"
    )
    sqlite: bool = Field(False, description="true: make an SQLite database of file_percent too")
    time_limit_s: Annotated[int, Field(ge=1)] = Field(600, description="time limit for defragmenting")
    seed: Seed | None = Field(None, description="seed of the database")
    reuse: Literal["nested", "fresh"] = Field(
        "nested", description="nested: the next state defragments the file of the state before"
    )

    @model_validator(mode="after")
    def _holds_together(self) -> States:
        with Problems() as wrong:
            if self.sqlite and 5 * self.file_percent >= 100:
                wrong.add("file_percent", f"five times {self.file_percent}%, with the database, must be below 100%")
            if HOT in self.stage and self.hot_size is None:
                wrong.add("hot_size", "is wanted for stage hot, e.g. 1M")
            if self.hot_size is not None:
                odd = self.hot_size % BLOCK_BYTES or self.hot_size * 100 % (self.hot_percent * BLOCK_BYTES)
                if odd:
                    text = f"{format_size(self.hot_size)} is not {self.hot_percent}% of whole blocks"
                    wrong.add("hot_size", text)
        return self

    @property
    def hot(self) -> dict[str, int]:
        """The ranges that are hot: the first hot_bytes of each every_bytes."""
        if self.hot_size is None:
            return {}
        return {"hot_bytes": self.hot_size, "every_bytes": self.hot_size * 100 // self.hot_percent}


def expand(states: States) -> list[State]:
    """Return, for each size of pieces, the state before and those after."""
    stages = [stage for stage in STAGES if stage in states.stage]
    return [_state(states, size_bytes, stage) for size_bytes in states.piece_size for stage in stages]


def _state(states: States, piece_bytes: int, stage: str) -> State:
    size = format_size(piece_bytes)
    percent = states.file_percent
    parts: list[Step] = [ContendedFiles(1, percent, piece_bytes, **states.hot)]
    if states.sqlite:
        parts.append(Sqlite(2, percent, states.seed))
    if stage == HOT:
        parts.append(Defragment(1, "hot", states.time_limit_s, **states.hot))
    elif stage == AFTER:
        parts.append(Defragment(1, "file", states.time_limit_s))
    nominal = {
        "recipe": "iocontrol",
        "fullness_percent": (5 if states.sqlite else 4) * percent,
        "reference": f"{size}.{BEFORE}",
        "axes": {"piece_bytes": piece_bytes, "stage": stage},
    }
    axes: dict[str, object] = {"piece_size": piece_bytes, "stage": stage}
    return State(f"{size}.{stage}", size, axes, nominal, tuple(parts))
