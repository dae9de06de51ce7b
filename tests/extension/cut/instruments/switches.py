"""How often each client switched from one process to another while a phase ran."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from fsage.api.host import Instrument, OtherHost
from fsage.api.model import Cell, Json, Phase


def count(host: OtherHost) -> Json:
    """Switches since this host was started (proc_stat(5))."""
    words = Path("/proc/stat").read_text(encoding="ascii").split()
    return {"count": int(words[words.index("ctxt") + 1])}


class Switches(Instrument):
    """On record for each phase, by client."""

    name = "switches"
    remote: ClassVar = {"switches": count}

    def unsupported(self, cell: Cell) -> str | None:
        return "it has too many parts" if len(cell["phases"]) > 3 else None

    @contextlib.contextmanager
    def around_phase(self, phase: Phase, cell: Cell) -> Iterator[Json]:
        seen: Json = {}
        before = self.on_clients("switches")
        yield seen
        for name, now in self.on_clients("switches").items():
            seen[name] = now["count"] - before[name]["count"]
