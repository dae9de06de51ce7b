"""What a run is about to do to files, and did: lines of JSON, each on disk before the next thing is done.

A run is a file `<time>.jsonl`: a line `run`, for each file a line `before` (with its `identity`) before a tool gets it
and a line `after`, and a line `end`. Without the last the run was interrupted, at the file that has no `after`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fsage.agent.system import holders
from fsage.agent.system.files import sync_dir, utc_now

Entry = dict[str, Any]


class Journal:
    """One run's journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():  # a line that a kill cut short is taken away
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)

    @classmethod
    def begin(cls, folder: Path, **about: Any) -> Journal:
        """Begin the journal of a new run."""
        path = folder / f"{utc_now().replace(':', '').replace('.', '-')}.jsonl"
        journal = cls(path)
        journal.note("run", **about)
        sync_dir(folder)
        return journal

    @classmethod
    def last(cls, folder: Path) -> Journal | None:
        """The journal of the newest run, if there was any."""
        found = sorted(folder.glob("*.jsonl"))
        return cls(found[-1]) if found else None

    def note(self, kind: str, **entry: Any) -> Entry:
        """Add a line, and return it; it is on disk when this returns."""
        line = {"kind": kind, "at": utc_now(), **entry}
        with open(self.path, "a", encoding="utf-8", opener=_ours) as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return line

    def entries(self) -> list[Entry]:
        """All lines."""
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    @property
    def ended(self) -> bool:
        """Whether the run came to its end."""
        entries = self.entries()
        return bool(entries) and entries[-1]["kind"] == "end"

    def begun(self) -> dict[str, Entry]:
        """Of each file that a tool may have been given: its line `before`, by path."""
        return {entry["path"]: entry for entry in self.entries() if entry["kind"] == "before"}

    def unfinished(self) -> dict[str, Entry]:
        """Those of them of which it was not said what became of them."""
        done = {entry["path"] for entry in self.entries() if entry["kind"] == "after"}
        return {path: entry for path, entry in self.begun().items() if path not in done}


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other runs out while the block runs, and as long as a tool lives that it started. Raises ValueError."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a", encoding="utf-8", opener=_ours) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = holders.of(lock.fileno())
            raise ValueError(
                f"another `fsage defragment` is at work, or a tool of it: {who} holds {lock.name}"
            ) from None
        os.set_inheritable(lock.fileno(), True)
        yield


def _ours(path: str, flags: int) -> int:
    """Open a file of the journal: no link is followed, and nobody waits at a FIFO. Raises OSError."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
