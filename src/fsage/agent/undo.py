"""Putting back what the journal says was changed outside a target."""

from __future__ import annotations

from pathlib import Path

from fsage.agent import files, iocost, journal, seek, trace

UNDO = {**iocost.UNDO, **seek.UNDO, **trace.UNDO}


def undo(home: Path) -> list[str]:
    """Undo what was changed for this target, newest first, and what is shared if nobody else needs it.

    Returns what was verified, a sentence each. `Failure`: what could not be put back stays noted.
    """
    proof = []
    with files.locked(journal.SHARED_LOCK):
        for path in (journal.path_of(home), journal.SHARED):
            if path == journal.SHARED and iocost.groups():
                break
            for entry in reversed(journal.entries(path)):
                proof.append(UNDO[entry["kind"]](entry))
                journal.strike(path, entry)
            files.remove(path)  # void entries of an earlier boot
    return proof


def left_over() -> bool:
    """Whether something shared is still changed although no target needs it."""
    return bool(journal.entries(journal.SHARED)) and not iocost.groups()
