"""How what was changed outside a target is undone: each instrument and device model says it for what it notes.

A change is noted in the target's journal before it is made (fsage.host.system.settings).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from fsage.host.device import below, models
from fsage.host.instruments import found
from fsage.host.system.settings import Undo, journal_of
from fsage.host.targets import Target


def left_over(home: Path) -> bool:
    """Whether what was set for a cell is still there."""
    return any(instrument.left_over(home) for instrument in found())


def end_running(home: Path) -> None:
    """End what a killed command left running beside a cell, which may have the target's files open."""
    for instrument in found():
        instrument.end_running(home)


def undo_cell(target: Target) -> None:
    """End what a killed command left running beside a cell, and undo what was set for the cell."""
    if left_over(target.home):
        end_running(target.home)
        undo(target.home, of_a_cell())


def of_a_cell() -> set[str]:
    """Kinds of changes that are undone after each cell."""
    kinds: set[str] = set()
    for instrument in found():
        kinds.update(instrument.of_a_cell)
    return kinds


def undo(home: Path, kinds: Collection[str] | None = None) -> list[str]:
    """Undo what was changed for this target, newest first, and shared settings if no other target needs them.

    With `kinds`, only entries of these kinds are undone, and nothing that is shared. Returns a sentence for each thing
    that was verified. Raises Failure; what could not be restored stays noted.
    """
    if os.geteuid():  # every entry of the journal took root to make, and takes root to undo
        return []
    ways: dict[str, Undo] = dict(below.UNDO)
    for model in models.every():
        ways.update(model.changes)
    for instrument in found():
        ways.update(instrument.changes)
    if kinds is not None:
        return journal_of(home).undo({kind: ways[kind] for kind in kinds})
    proof = journal_of(home).undo(ways)
    if shared_left_over():
        for model in models.every():
            proof += model.undo_shared()
    return proof


def shared_left_over() -> bool:
    """Whether a shared setting is still changed although no target needs it."""
    return os.geteuid() == 0 and any(model.shared_left_over() for model in models.every())
