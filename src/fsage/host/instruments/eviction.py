"""The cache-eviction file: a step makes it, and every client reads it before a phase, so that it fills the caches.

It is several large files of a state that are not measured. Together they are as large as a share of the capacity, or as
a client's memory. On Lustre each is striped over all OSTs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

from fsage.base import MIB, Failure, Json
from fsage.host.instruments import Instrument
from fsage.host.remote import answers_of
from fsage.host.structure import files
from fsage.host.structure.quota import Quota
from fsage.host.system import caches
from fsage.host.system.space import memory_bytes
from fsage.host.targets import OtherHost, Target
from fsage.model import structure
from fsage.model.request import Cell, Phase
from fsage.model.structure import EVICTION_FILES, path_of

READ_PATIENCE_S = 3600.0  # for reading a file as large as a host's memory
MEMORY = "memory"
GENERATION = 1


def paths(target: Target) -> list[Path]:
    """The cache-eviction files of a target."""
    return [path_of(target.mounts, GENERATION, index) for index in range(EVICTION_FILES)]


def make_files(target: Target, size: float | str, check_lease: Callable[[], None]) -> int:
    """Write the cache-eviction files; how many bytes they have together.

    `size`: percent of the capacity, or `memory`: as much as this host has. Raises Failure where they do not fit.
    """
    if size == MEMORY:
        whole = memory_bytes()
    else:
        whole = int(target.capacity_bytes * float(size) / 100)
    each = max(1, whole // EVICTION_FILES // MIB) * MIB
    quota = Quota(target)
    quota.must_hold(EVICTION_FILES * each, "the cache-eviction file (eviction_file can be less)")
    files.make_room(target.mounts, GENERATION)
    made = paths(target)
    target.osts.spread(made[0].parent)
    for path in made:
        check_lease()
        try:
            quota.write(path, each, structure.ALL_OSTS)
        except OSError as error:
            raise Failure(
                f"writing {path}, {each} bytes of the cache-eviction file ({EVICTION_FILES * each} bytes in "
                f"{EVICTION_FILES} parts): {error.strerror}; eviction_file can be less"
            ) from error
    return EVICTION_FILES * each


def read_files(target: Target) -> None:
    """Read the cache-eviction files. Raises Failure if there are none.

    No measured file is touched, so that nothing of these comes into memory.
    """
    there = [path for path in paths(target) if path.exists()]
    if not there:
        raise Failure(f"the state has no cache-eviction file below {target.mounts[0]}/filler to be read")
    caches.bring_in(there)


def read_there(host: OtherHost) -> Json:
    """Read the target's cache-eviction file, on another client."""
    assert host.target
    read_files(host.target)
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
        read_files(self.target)
        answers_of(self.hosts.clients, READ_PATIENCE_S)
