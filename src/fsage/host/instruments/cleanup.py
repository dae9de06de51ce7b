"""What a cell or a target changed on its host, put back: groups that share the device, scheduler, cost model."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from fsage.host.device import below, cgroups, iocost, seek
from fsage.host.instruments import groups, scheduler, trace
from fsage.host.system import files, journal
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


UNDO = {**below.UNDO, **iocost.UNDO, **seek.UNDO, **trace.UNDO, **scheduler.UNDO}


def undo(home: Path, kinds: Container[str] = UNDO) -> list[str]:
    """Undo what was changed for this target, newest first, and shared settings if no other target needs them.

    With `kinds`, only entries of these kinds are undone, and nothing that is shared. Returns a sentence for each thing
    that was verified. Raises Failure; what could not be restored stays noted.
    """
    proof: list[str] = []
    if os.geteuid():  # every entry of the journal took root to make, and takes root to undo
        return proof
    noted = journal.path_of(home)
    for entry in reversed(journal.entries(noted)):
        if entry["kind"] in kinds:
            proof.append(UNDO[entry["kind"]](entry))
            journal.strike(noted, entry)
    if not journal.entries(noted):
        files.remove(noted)  # void entries of an earlier boot
    if kinds is UNDO and shared_left_over():
        proof += iocost.put_back_shared()
    return proof


def shared_left_over() -> bool:
    """Whether a shared setting is still changed although no target needs it."""
    return not cgroups.unavailable_because() and journal.SHARED.exists() and not cgroups.names()
