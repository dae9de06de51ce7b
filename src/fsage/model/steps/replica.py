"""The step of states that are copied from a list of free extents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fsage.model.filler import path_of
from fsage.model.structure import Achieved, Notes, Step


@dataclass(frozen=True)
class Replica(Step):
    """Lay the free space as that of `layout` lies, or as much of it in one run (`joined`).

    `draw` and `seed`: which sample of windows of `window_groups` groups, where the original is larger than the target.
    `input`: the digest of the list of free extents, under which the request has it.
    """

    layout: str
    joined: bool
    draw: int
    window_groups: int
    seed: int | None
    input: str | None = None

    def describe(self) -> str:
        """The step in words."""
        return f"lay free space as in {self.layout}" + (", in one run" if self.joined else "")

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """The files that hold what is in use."""
        return [path_of(mounts, self.generation, index) for index in range(noted.get("files", 0))]

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """No share of files was asked for; the notes have what is free."""
        return
