"""Files that this process itself moves, in place of a program: of workload sequential, in a guest's virtual time.

A program of its own takes longer to start in a guest. Each fio reads the clock half a million times before it begins:
in a guest's virtual time that takes 5 real seconds.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fsage.base import MIB, Json
from fsage.host.instruments.instrument import Instrument
from fsage.model.request import TRANSFER


class Transfers(Instrument):
    """Moves a file, timed by its clock. Its phases print how many bytes they moved, and in how many seconds."""

    task = TRANSFER

    def do(self, task: Json, said: Json, check_alive: Callable[[], None]) -> None:
        said.update(bytes=0, seconds=0.0)
        with opened(self.target.mounts[0] / "measured" / task["file"], task["reads"]) as descriptor:
            began = time.monotonic()
            for size in moved(descriptor, task):
                check_alive()
                said["bytes"] += size
            said["seconds"] = time.monotonic() - began


@contextlib.contextmanager
def opened(path: Path, reads: bool) -> Iterator[int]:
    """A file past the cache: one that is there, or a new one. Raises OSError."""
    descriptor = os.open(path, os.O_DIRECT | (os.O_RDONLY if reads else os.O_WRONLY | os.O_CREAT | os.O_EXCL), 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def moved(descriptor: int, task: Json) -> Iterator[int]:
    """Move a file; what each request moved. One that moved less than it should is the last. Raises OSError."""
    call = os.preadv if task["reads"] else os.pwritev
    pieces = _memory(task["request_bytes"])
    for offset in range(0, task["bytes"], task["request_bytes"]):
        size = call(descriptor, pieces, offset)
        yield size
        if size < task["request_bytes"]:
            return


def _memory(size: int) -> list[memoryview]:
    """Memory for a request: the same MiB again and again, for a guest takes long to have new pages."""
    piece = memoryview(mmap.mmap(-1, min(size, MIB)))
    whole, rest = divmod(size, len(piece))
    return [piece] * whole + ([piece[:rest]] if rest else [])
