"""Preallocation: files written at once in pieces of a size fill the target, and are then deleted one by one.

Each size has a state `clean`, with nothing on the target, and one for each count of deleted files.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsage.api.model import format_size
from fsage.api.study import Levels, Problems, Seed, SizeInBlocks, State, Strict

from .model import DeleteFiles, Interleave

CLEAN = "clean"


class States(Strict):
    """Block `states:` of a study: every preallocation size with every count of deleted files, and each size clean."""

    recipe: Literal["prealloc"] = "prealloc"
    preallocation_size: Annotated[tuple[SizeInBlocks, ...], Levels()] = Field(
        description="how much the allocator preallocates for a file; the target's scale does not apply"
    )
    deleted: Annotated[tuple[Annotated[int, Field(ge=1, le=999, strict=True)], ...], Levels()] = Field(
        description="how many of the files are deleted before the cells"
    )
    files: Annotated[int, Field(ge=2, le=999)] = Field(20, description="how many files fill the target")
    seed: Seed | None = Field(
        None, description="seed of the order in which files are deleted; null: drawn once and recorded"
    )
    reuse: Literal["nested", "fresh"] = Field(
        "nested", description="nested: the next state deletes more; fresh: each state begins empty"
    )
    filler: Literal["fallocate", "together"] = Field(
        "fallocate",
        description="fallocate: extents alternate in an exact layout; together: files are written at once, and the "
        "servers place them",
    )

    @model_validator(mode="after")
    def _enough_files(self) -> States:
        with Problems() as wrong:
            most = max(self.deleted)
            if most > self.files:
                wrong.add("deleted", f"{most} is more than the {self.files} files that there are")
        return self


def expand(states: States) -> list[State]:
    """Return each size's states: clean, then with more and more files deleted."""
    return [
        _state(states, size_bytes, deleted)
        for size_bytes in states.preallocation_size
        for deleted in (0, *sorted(states.deleted))
    ]


def _state(states: States, size_bytes: int, deleted: int) -> State:
    size = format_size(size_bytes)
    free_percent = 100 * deleted / states.files if deleted else 100.0
    nominal = {
        "recipe": "prealloc",
        "reference": f"{size}.{CLEAN}",
        "axes": {"preallocation_bytes": size_bytes, "deleted": deleted, "files": states.files},
        "fullness_percent": 100 - free_percent,
    }
    interleave = Interleave(1, states.files, size_bytes, states.filler)
    parts = (interleave, DeleteFiles(1, deleted, states.seed)) if deleted else ()
    axes: dict[str, object] = {"preallocation_size": size_bytes, "deleted": deleted}
    name = f"{size}.{f'{deleted:02d}' if deleted else CLEAN}"
    return State(name, size if deleted else name, axes, nominal, parts)
