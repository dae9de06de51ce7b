"""The free extents of whatever `fsage evidence` reads, whole: as a text of fsage, and as arrays.

Where a text has sizes by class only, sizes within the classes and places are drawn. Each draw is a layout that the
text could be of. What it says is kept: how many extents each class has, and of how many bytes. Where it does not say
how large the device is, that is drawn too, from half full to 95% full.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from fsage.base import Json
from fsage.base.message import check_place
from fsage.layouts import extents
from fsage.layouts.extents import Head
from fsage.layouts.freespace import Counting
from fsage.layouts.inspect import inspect

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
    store: Json

    def pairs(self) -> Iterator[tuple[int, int]]:
        """The free extents as Python's integers."""
        for first in range(0, len(self.places), BUFFERED):
            yield from map(tuple, self.places[first : first + BUFFERED].tolist())


def read(what: str, seed: Sequence[int] | None = None) -> Free:
    """The free extents of a device, an image, a mount or a saved text. Raises ValueError, one sentence.

    `seed`: draw what a text of sizes does not say (fsage.evidence.free); None: such a text is refused.
    """
    spool = _Spool()
    layout = inspect(what, 0, Counting(keep=spool.keep))
    (store,) = layout["stores"]
    if store["unknown_bytes"]:
        raise ValueError(f"{what}: {' '.join(store['warnings'])} Nothing of it is copied before it is repaired")
    if store["free_extents"] and not store["bitmap"] and seed:
        return Free(*lay(store, seed), store)
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
        geometry=store["geometry"],
        unlike=store["unlike"],
    )
    return Free(head, spool.places(), store)


def save(what: str, path: Path, seed: Sequence[int] | None = None) -> Free:
    """Write the free extents of `what` to a file, packed if its name ends so, or nothing. Raises ValueError.

    Of a text of sizes, with a `seed`, the text itself: each state draws from it anew.
    """
    check_place(path)
    free = read(what, seed)
    if free.head.drawn:
        shutil.copyfile(what, path)
    else:
        write(free, path)
    return free


def write(free: Free, path: Path) -> None:
    """Write free extents to a file, packed if its name ends so, or nothing. Raises ValueError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as out:
            # The same bytes for the same layout: no name and no time in them.
            packed = gzip.GzipFile("", "wb", 1, fileobj=out, mtime=0) if path.suffix == ".gz" else out
            packed.writelines(extents.written(free.head, free.pairs()))
            packed.close()
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


FULL_PERCENT = (50.0, 95.0)
GROUP_BYTES = 128 << 20
DRAWS = 5
"""The fewest that give an interval."""

Blocks = npt.NDArray[np.int64]


def lay(store: Json, seed: Sequence[int]) -> tuple[Head, Blocks]:
    """A device with the free extents of a Store.summary, and their starts and ends in bytes, ascending.

    Raises ValueError where so many extents do not fit on it.
    """
    random = np.random.default_rng(seed)
    block = store["block_bytes"]
    classes = [row for row in store["free_extents"]["histogram"] if row["extents"]]
    sizes = np.concatenate([_sizes(row, block, random) for row in classes])
    free = int(sizes.sum())
    blocks = (store["device_bytes"] or 0) // block
    if not blocks:
        blocks = int(free / (1 - random.uniform(*FULL_PERCENT) / 100)) + len(sizes)
    if blocks - free < len(sizes) - 1:
        raise ValueError(f"{len(sizes):,} free extents cannot lie apart in {blocks - free:,} blocks in use")
    random.shuffle(sizes)
    # Blocks in use before each extent: at least one between two, the rest cut at random.
    cuts = np.sort(random.integers(0, blocks - free - len(sizes) + 2, size=len(sizes)))
    ends = cuts + np.arange(len(sizes)) + np.cumsum(sizes)
    drawn = {"from_sizes": store["source"]["free"], "size_known": store["device_bytes"] is not None}
    head = Head(
        blocks * block, block, min(blocks * block, GROUP_BYTES), store["filesystem"], store["source"]["free"], drawn
    )
    return head, np.stack([ends - sizes, ends], axis=1) * block


def _sizes(row: Json, block: int, random: np.random.Generator) -> Blocks:
    """Sizes of a class in blocks: of its mean, between its bounds, and of its sum."""
    number = row["extents"]
    total = row["bytes"] // block
    low = -(-row["from_bytes"] // block)
    room = max(0, -(-2 * row["from_bytes"] // block) - 1 - low)
    share = min(1.0, max(0.0, (total / number - low) / room)) if room else 0.0
    above = random.random(number) ** ((1 - share) / share) if share else np.zeros(number)
    sizes = low + np.floor(room * above).astype(np.int64)
    while missing := total - int(sizes.sum()):
        sign = 1 if missing > 0 else -1
        own_room = low + room - sizes if missing > 0 else sizes - low
        if not own_room.any():
            own_room = np.full(number, abs(missing))
        able = random.permutation(np.flatnonzero(own_room > 0))
        step = max(1, abs(missing) // len(able))
        able = able[: abs(missing) // step]
        sizes[able] += sign * np.minimum(step, own_room[able])
    return sizes
