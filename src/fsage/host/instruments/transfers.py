"""What this process itself does with files, in place of a program: of workloads sequential and metadata.

It does so in a guest, and where a file is not timed: a program takes long to start, in a guest longer. Each fio reads
the clock half a million times before it begins: in a guest's virtual time that takes 5 real seconds.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fsage.base import MIB, Call, Json
from fsage.host.device import loops
from fsage.host.instruments import Instrument
from fsage.host.instruments.counters import of_device
from fsage.host.structure import files
from fsage.host.system import caches, kernel
from fsage.model.request import NAMES, TRANSFER


class Transfers(Instrument):
    """Moves a file, timed by its clock. Its phases print the bytes, the seconds, and what the device did meanwhile."""

    task = TRANSFER

    def do(self, task: Json, said: Json, check_alive: Call) -> None:
        said.update(bytes=0, seconds=0.0)
        path = self.target.mounts[0] / "measured" / task["file"]
        flags = os.O_RDONLY if task["reads"] else os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with kernel.opened(path, flags | os.O_DIRECT) as descriptor, clocked(self.target.devices[0], said):
            for size in moved(descriptor, task):
                check_alive()
                said["bytes"] += size


class Names(Instrument):
    """Makes, looks up or removes empty files one after another, and writes out what that changed.

    Its phases print how many files they were, the seconds, and what the device did meanwhile. Requests are counted as
    the file system submits them. How many of them Linux joins, and whether a commit needs a flush of its own, depends
    on when its threads run.
    """

    task = NAMES

    def do(self, task: Json, said: Json, check_alive: Call) -> None:
        said["files"] = 0
        operation = OPERATIONS[task["operation"]]
        for name, value in STILL.items():
            loops.set_knob(loops.queue_of(self.target.devices[0]) / name, value)
        with clocked(self.target.devices[0], said):
            for number in range(task["files"]):
                if number % CHECK_EVERY == 0:
                    check_alive()
                operation(f"{task['folder']}/{number}")
                said["files"] += 1
            caches.flush(Path(task["folder"]))


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


OPERATIONS: dict[str, Callable[[str], object]] = {"create": _create, "stat": os.stat, "remove": os.unlink}
CHECK_EVERY = 256
STILL = {"nomerges": 2, "write_cache": "write through"}
"""No two requests are joined, and none only flushes a cache (Documentation/ABI/stable/sysfs-block)."""


@contextlib.contextmanager
def clocked(device: str, said: Json) -> Iterator[None]:
    """Note the seconds that the block takes, and what the device does meanwhile."""
    before = of_device(device)
    began = time.monotonic()
    yield
    said["seconds"] = time.monotonic() - began
    said["device"] = {name: count - before[name] for name, count in of_device(device).items()}


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
    piece = files.noise(min(size, MIB))
    whole, rest = divmod(size, len(piece))
    return [piece] * whole + ([piece[:rest]] if rest else [])
