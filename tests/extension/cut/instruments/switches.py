"""How often each client switched from one process to another while a phase ran."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from fsage.base import Json
from fsage.host.instruments.instrument import Instrument
from fsage.host.remote.connection import ask_all
from fsage.host.targets.target import OtherHost
from fsage.model.request import Cell, Phase


def count_there(host: OtherHost) -> Json:
    """The same count on another client."""
    return {"count": count()}


def count() -> int:
    """Switches since this host was started (proc_stat(5))."""
    words = Path("/proc/stat").read_text(encoding="ascii").split()
    return int(words[words.index("ctxt") + 1])


class Switches(Instrument):
    """On record for each phase, by client."""

    name = "switches"
    remote: ClassVar = {"switches": count_there}

    def unsupported(self, cell: Cell) -> str | None:
        return "it has too many parts" if len(cell["phases"]) > 3 else None

    @contextlib.contextmanager
    def around_phase(self, phase: Phase, cell: Cell) -> Iterator[Json]:
        seen: Json = {}
        before = self._counts()
        yield seen
        seen.update({name: now - before[name] for name, now in self._counts().items()})

    def _counts(self) -> dict[str, int]:
        others = ask_all(self.hosts.clients, lambda _: {"do": "switches"})
        return {self.hosts.client_names[0]: count(), **{name: answer["count"] for name, answer in others.items()}}
