"""Clean-up of the host settings of a cell: groups that share the device, its scheduler, their cost model."""

from __future__ import annotations

from pathlib import Path

from fsage.host.settings import groups
from fsage.host.settings.undo import undo
from fsage.host.system import journal
from fsage.host.targets.target import Target

OF_A_CELL = ("cost", "scheduler", "v1_group")
"""A group of cgroup v1 is removed with its cell: while there is one, the controller cannot move to v2."""


def left_over(home: Path) -> bool:
    """Whether groups of readers, or the scheduler that was set for them, are still there."""
    noted = {entry["kind"] for entry in journal.entries(journal.path_of(home))}
    return bool(groups.left_over(home)) or "scheduler" in noted


def put_back(target: Target) -> None:
    """End what a killed command left running in the groups, and restore scheduler and cost model."""
    if left_over(target.home):
        groups.end_readers(target.home)
        undo(target.home, OF_A_CELL)
