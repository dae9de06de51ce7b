"""The device model: the kernel's I/O cost controller (IOCost) on a loop device, for the target's own control group."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable


def entering(name: str) -> Callable[[], None]:
    raise NotImplementedError


def put(home: Path, name: str, devices: list[str], model: dict[str, Any]) -> dict[str, Any]:
    raise NotImplementedError


def possible(declared: dict[str, Any]) -> str | None:
    return "not yet"
