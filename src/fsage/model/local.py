"""What a machine has and holds, as the launcher is told (fsage.seam)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Obstacle(NamedTuple):
    """Why a capability cannot be had here: what failed, the name of its errno where there is one, what helps."""

    reason: str
    errno: str | None
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


class Able(NamedTuple):
    """A capability that fsage needs of a machine, what for, and why this process has it not; None: it has."""

    name: str
    purpose: str
    obstacle: Obstacle | None


class HeldTarget(NamedTuple):
    """A target that a machine holds. `what`: in words; `inventory`: its own, with which it is given back anywhere.

    `take_over`: the id of its claim, where that is known by the mark in the target alone.
    """

    name: str
    kind: str
    home: Path
    what: str
    inventory: Path | None
    take_over: str | None = None
