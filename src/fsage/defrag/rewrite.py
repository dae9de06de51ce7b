"""Defragmenting somebody's own files so that no byte can get lost unnoticed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from fsage.agent.defragmentation import defragment
from fsage.agent.errors import Failure
from fsage.agent.system import mounting
from fsage.defrag import guard
from fsage.defrag.identity import Verdict, identity, verdict
from fsage.defrag.journal import Entry, Journal, alone
from fsage.defrag.look import Look


class Outcome(NamedTuple):
    """What became of one file, in words that follow its name; `good`: all that was wanted of it was done."""

    path: str
    words: str
    good: bool
    verdict: Verdict | None = None  # None: it was not touched


def rewrite(look: Look, folder: Path, time_limit_s: float) -> Iterator[Outcome]:
    """Defragment the files in pieces, worst first, one at a time; say of each what became of it.

    Before a tool gets a file, its SHA-256 and all else that has to stay (`identity`) are on disk in a journal below
    `folder`; afterwards it is read again, from the device, and compared. A run that was interrupted before is judged
    first. No file is begun after the time limit, and a tool that is at work then is stopped; reading the file again
    comes on top. After the first damage nothing more is touched. Raises ValueError (another run is at work), Refusal,
    Failure, OSError (the journal cannot be written).
    """
    with alone(folder):
        deadline = time.monotonic() + time_limit_s
        for outcome in _recovered(Journal.last(folder)):
            yield outcome
            if outcome.verdict is Verdict.DAMAGED:
                return
        journal: Journal | None = None
        largest: dict[int, int | None] = {}  # free run, by device
        for one in look.in_pieces:
            path = one.path.absolute()
            if time.monotonic() >= deadline:
                yield Outcome(str(path), f"in {one.file.extents} extents: not begun, the time was over", False)
            elif why := guard.why_not(path):
                yield Outcome(str(path), f"not touched: it {why}", False)
            else:
                journal = journal or Journal.begin(folder, host=os.uname().nodename, time_limit_s=time_limit_s)
                outcome = _one(path, journal, deadline, largest)
                yield outcome
                if outcome.verdict is Verdict.DAMAGED:
                    return
        if journal:
            journal.note("end")


def verify(folder: Path) -> list[Outcome]:
    """Read again each file that the newest run may have given to a tool, and judge it. Raises ValueError, OSError."""
    with alone(folder):
        journal = Journal.last(folder)
        if journal is None:
            raise ValueError(f"no run of `fsage defragment` has left a journal in {folder}")
        recovered = {outcome.path: outcome for outcome in _recovered(journal)}
        return [recovered.get(path) or _judged(path, noted) for path, noted in journal.begun().items()]


def _recovered(journal: Journal | None) -> list[Outcome]:
    """After an interruption: judge what was at work, remove what its tool left, and end the journal."""
    if journal is None or journal.ended:
        return []
    outcomes = []
    for path, noted in journal.unfinished().items():
        outcome = _judged(path, noted)
        outcome = outcome._replace(words=f"was at work when a run was interrupted: {outcome.words}")
        _note_after(journal, outcome)
        outcomes.append(outcome)
    journal.note("end", interrupted=True)
    return outcomes


def _one(path: Path, journal: Journal, deadline: float, largest: dict[int, int | None]) -> Outcome:
    """Defragment a file that may be touched."""
    filesystem, device = mounting.mount_of(path).type, os.stat(path).st_dev
    if device not in largest:
        largest[device] = defragment.largest_free_bytes(filesystem, path)
        version = defragment.version_of(defragment.tool_of(filesystem))
        journal.note("tool", filesystem=filesystem, version=version, largest_free_bytes=largest[device])
    noted = journal.note("before", path=str(path), filesystem=filesystem, **identity(path))
    try:
        done = defragment.of_file(path, filesystem, deadline - time.monotonic(), largest[device])
    except Failure as error:
        done, better, text = {}, False, str(error)
    else:
        better = done["extents_after"] < done["extents_before"]
        text = f"{done['extents_before']} -> {done['extents_after']} extents"
        text += f" ({done['left']})" if done["left"] else ""
    outcome = _judged(str(path), noted)
    outcome = outcome._replace(words=f"{text}; {outcome.words}", good=outcome.good and better)
    _note_after(journal, outcome, **done)
    return outcome


def _note_after(journal: Journal, outcome: Outcome, **done: Any) -> None:
    journal.note("after", **{**done, "path": outcome.path, "verdict": outcome.verdict, "words": outcome.words})


def _judged(path: str, noted: Entry) -> Outcome:
    """A file as it was `noted` before a tool got it; what a killed tool has left beside it is removed."""
    left = []
    if os.path.isdir(os.path.dirname(path)):
        since_s = datetime.fromisoformat(noted["at"]).timestamp()
        left = defragment.clear_temporaries(Path(path), noted["filesystem"], since_s)
    found, words = verdict(Path(path), noted)
    if left:
        words += f"; removed an empty file that its tool had left: {', '.join(left)}"
    return Outcome(path, words, found is Verdict.WHOLE, found)
