"""Restoring the host settings that the journal names."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from fsage.host.device import cgroups, iocost, seek
from fsage.host.settings import scheduler, trace
from fsage.host.system import files, journal

UNDO = {**iocost.UNDO, **seek.UNDO, **trace.UNDO, **scheduler.UNDO}


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
    if kinds is UNDO and left_over():
        proof += iocost.put_back_shared()
    return proof


def left_over() -> bool:
    """Whether a shared setting is still changed although no target needs it."""
    return not cgroups.unavailable_because() and journal.SHARED.exists() and not cgroups.names()
