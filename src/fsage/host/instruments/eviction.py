"""Read the cache-eviction file before a phase, on every client: it fills the caches with what is not measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import ClassVar

from fsage.base import Json
from fsage.host.instruments.instrument import Instrument
from fsage.host.remote.connection import answers_of
from fsage.host.structure import files
from fsage.host.targets.target import OtherHost
from fsage.model.request import Cell, Phase

READ_PATIENCE_S = 3600.0  # for reading a file as large as a host's memory


def read_there(host: OtherHost) -> Json:
    """Read the target's cache-eviction file, on another client."""
    assert host.target
    files.read_eviction_files(host.target)
    return {}


class EvictionFile(Instrument):
    """For phases with `eviction_file`; `seconds`: how long the slowest client took."""

    name = "eviction_file"
    order = -1
    remote: ClassVar = {"read": read_there}

    @contextlib.contextmanager
    def around_phase(self, phase: Phase, cell: Cell) -> Iterator[Json]:
        if not phase.get("eviction_file"):
            yield {}
            return
        began = time.monotonic()
        self.read()
        yield {"seconds": time.monotonic() - began}

    def read(self) -> None:
        """Read it on all clients at once. Raises Failure."""
        for host in self.hosts.clients:
            host.tell({"do": "read"})
        files.read_eviction_files(self.target)
        answers_of(self.hosts.clients, READ_PATIENCE_S)
