"""The free extents of whatever `fsage evidence` reads, whole: as a text of fsage's own, and as arrays for sampling."""

from __future__ import annotations

import gzip
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from fsage import seam
from fsage.model.evidence import extents
from fsage.model.evidence.counting import Counting
from fsage.model.evidence.extents import Head

BUFFERED = 1 << 16
Places = npt.NDArray[np.int64]


@dataclass
class _Spool:
    """Free extents as they are read, on disk: their number does not count in memory."""

    file: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def keep(self, starts: Sequence[int], ends: Sequence[int]) -> None:
        """Take many."""
        self.file.write(np.array((starts, ends), dtype=np.int64).T.tobytes())

    def places(self) -> Places:
        """All of them, a row each: start and end."""
        self.file.flush()
        if not self.file.tell():
            return np.empty((0, 2), dtype=np.int64)
        return np.memmap(self.file, dtype=np.int64, mode="r").reshape(-1, 2)


@dataclass(frozen=True)
class Free:
    """Where a device is free: `places` has a row for each free extent, its start and end in bytes, ascending."""

    head: Head
    places: Places
    store: dict[str, object]

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The same as numbers of Python's."""
        for first in range(0, len(self.places), BUFFERED):
            yield from map(tuple, self.places[first : first + BUFFERED].tolist())


def read(what: str) -> Free:
    """The free extents of a device, an image, a mount or a saved text. Raises ValueError, one sentence."""
    spool = _Spool()
    layout = seam.here().inspect(what, 0, Counting(keep=spool.keep))
    (store,) = layout["stores"]
    if not store["free_extents"] or not store["bitmap"]:
        why = store["absent"].get("free_extents") or store["absent"].get("bitmap")
        raise ValueError(f"{what}: where free extents lie is not known: {why}")
    groups = store["groups"] or {}
    head = Head(
        store["device_bytes"],
        store["block_bytes"],
        groups.get("group_bytes") or store["device_bytes"],
        store["filesystem"],
        store["source"].get("free", "unknown"),
    )
    return Free(head, spool.places(), store)


def save(what: str, path: Path) -> Free:
    """Write the free extents of `what` to a file, packed if its name ends so, or nothing. Raises ValueError."""
    free = read(what)
    write(free, path)
    return free


def write(free: Free, path: Path) -> None:
    """Write free extents to a file, packed if its name ends so, or nothing. Raises ValueError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as out:
            # The same bytes for the same layout: no name and no time in them.
            packed = gzip.GzipFile("", "wb", fileobj=out, mtime=0) if path.suffix == ".gz" else out
            packed.writelines(extents.written(free.head, free.pairs()))
            packed.close()
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
