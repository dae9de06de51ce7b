"""Steps of states whose free space is copied: laid out by a list of free extents, or kept from the state before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fsage.api.model import Achieved, Json, Step, path_of

EXTENT_BYTES = 420
"""Memory that a free extent takes while a layout is laid on a host, as measured (bench/full_size.py)."""


class FreeSpace(Step):
    """A step that lays free space: files of its generation hold what is in use."""

    ONE_STORE: ClassVar[bool] = True
    WANTS: ClassVar[tuple[str, ...]] = ("own_stores", "takes_layouts")

    def named(self, mounts: list[Path], noted: Json) -> list[Path]:
        """The files that hold what is in use."""
        return [path_of(mounts, self.generation, index) for index in range(noted.get("files", 0))]


@dataclass(frozen=True)
class Replica(FreeSpace):
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
        return f"lay free space as in {self.layout}" + (", in one run" if self.joined else "")


@dataclass(frozen=True)
class KeepFreeSpace(FreeSpace):
    """Keep the free space as the steps before left it, or as much of it in one run (`joined`)."""

    REPLACES: ClassVar[bool] = True

    joined: bool

    def describe(self) -> str:
        return "keep the free space" + (", in one run" if self.joined else "") + ", held by large files"

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """None: no share of files was requested; the notes have the free space."""
        shares.clear()
