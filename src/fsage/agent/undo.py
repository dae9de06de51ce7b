"""Putting back what the journal says was changed outside a target."""

from __future__ import annotations

import os
from collections.abc import Container
from pathlib import Path

from fsage.agent import files, journal
from fsage.agent.cells import trace
from fsage.agent.device import iocost, scheduler, seek

UNDO = {**iocost.UNDO, **seek.UNDO, **trace.UNDO, **scheduler.UNDO}


def undo(home: Path, kinds: Container[str] = UNDO) -> list[str]:
    """Undo what was changed for this target, newest first, and what is shared if nobody else needs it.

    Some `kinds`: only what is of these, and nothing that is shared.
    Returns what was verified, a sentence each. `Failure`: what could not be put back stays noted.
    """
    proof: list[str] = []
    if os.geteuid() != 0:  # all that is noted takes root, to make and to undo
        return proof
    with files.locked(journal.SHARED_LOCK):
        for path in (journal.path_of(home), journal.SHARED):
            if path == journal.SHARED and iocost.groups():
                break
            if path == journal.SHARED and kinds is not UNDO:
                break
            for entry in reversed(journal.entries(path)):
                if entry["kind"] not in kinds:
                    continue
                proof.append(UNDO[entry["kind"]](entry))
                journal.strike(path, entry)
            if not journal.entries(path):
                files.remove(path)  # void entries of an earlier boot
    return proof


def left_over() -> bool:
    """Whether something shared is still changed although no target needs it."""
    return os.geteuid() == 0 and bool(journal.entries(journal.SHARED)) and not iocost.groups()
