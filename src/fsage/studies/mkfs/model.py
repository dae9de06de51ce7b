"""The step that makes a target's file system anew with options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fsage.api.model import Step


@dataclass(frozen=True)
class Mkfs(Step):
    """Make the file system anew, by its usual command with `options` more: `-O bigalloc -C 65536`."""

    REPLACES: ClassVar[bool] = True
    DRAWS: ClassVar[bool] = False
    WANTS: ClassVar[tuple[str, ...]] = ("own_stores",)

    options: str

    def describe(self) -> str:
        return f"make the file system with {self.options}"
