"""What cells write on a sparse target: begun only where it has room below, measured on blocks that are there already.

The first write to a hole gives the image a block, which would be part of the result. So a cell whose run gave blocks
was a rehearsal. Its files are deleted, and it runs again on the same blocks, because umount and mount start the
allocator anew. Cells of a session usually write to the same places, so that one rehearsal serves many. Those places are
given back (discard) when the session ends, and before where room is short: a hundred cells take no more than two.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fsage.base import Failure, Json
from fsage.host.filesystems import Range
from fsage.host.instruments import Instrument, Visit
from fsage.host.targets.directories import measured_files
from fsage.layouts import fiemap
from fsage.model.request import Cell, Phase

MOST_RUNS = 8
"""A cell that fills an XFS to its last block needs five: it writes other blocks of its trees, fewer each time."""
IN_PASSING_BYTES = 256 << 10
"""Bytes of metadata, which the kernel writes at its own time, that a run may give the image."""
KEPT_BYTES = 32 << 20
"""Room that metadata always have."""


class SparseRoom(Instrument):
    """The room below that the cells of one session take."""

    name = "below"

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        self.written: dict[Path, set[Range]] = {mount: set() for mount in self.target.mounts}
        self.rehearsals: list[int] = []  # bytes that each gave the image
        self.grown = 0
        self.before: int | None = None  # bytes that the image took when a run began

    @classmethod
    def wanted(cls, visit: Visit) -> bool:
        return super().wanted(visit) and bool(visit.target.spec["sparse"])

    def unsupported(self, cell: Cell) -> str | None:
        words = [word for phase in cell["phases"] for word in phase["argv"]]
        if "{device}" not in " ".join(words) or self.target.model_in_place():
            return None
        return "it reads holes of a sparse image, which reach no disk; a device model charges for them"

    def refused(self, cell: Cell) -> str | None:
        wanted_bytes = cell.get("makes_bytes", 0) + KEPT_BYTES
        for free_some in (lambda: None, self.give_back, lambda: self.target.give_back_below(None)):
            free_some()
            room_bytes = self.target.room_below()
            if room_bytes is None or room_bytes >= wanted_bytes:
                return None
        return (
            f"its files take {cell.get('makes_bytes', 0)} bytes, and {KEPT_BYTES} more stay free for metadata. Below "
            f"the sparse image of target {self.target.name} there is room for {room_bytes} bytes. Declare a smaller "
            "amount_mib, or release the target, declare a larger one and make it again"
        )

    @contextlib.contextmanager
    def around_cell(self, cell: Cell) -> Iterator[Json]:
        below: Json = {}
        self.rehearsals = []
        self.grown = 0
        self.before = None
        yield below
        below.update(rehearsals=self.rehearsals, given_bytes=self.grown)

    def prepared(self, phase: Phase) -> Phase:
        if self.before is None:
            self.before = self.target.taken_below()
        return phase

    def again(self, failed: bool) -> bool:
        taken = self.target.taken_below()
        self.grown = taken - (taken if self.before is None else self.before)
        self.before = None
        self.note()
        if failed or self.grown <= IN_PASSING_BYTES:
            return False
        self.rehearsals.append(self.grown)
        if len(self.rehearsals) == MOST_RUNS:
            raise Failure(
                f"each of {MOST_RUNS} runs wrote to other holes of the sparse image ({self.rehearsals} bytes)"
            )
        return True

    def note(self) -> None:
        """Note where the files of a cell lie, before they are deleted."""
        if self.target.room_below() is None:
            return
        for mount in self.target.mounts:
            for path in measured_files([mount]):
                self.written[mount] |= {(e.physical, e.physical + e.length) for e in fiemap.extents(path)}

    def give_back(self) -> None:
        """Give back what the session's cells wrote. Raises Failure."""
        if any(self.written.values()):
            self.target.give_back_below(self.written)
            self.written = {mount: set() for mount in self.target.mounts}

    def close(self) -> None:
        with contextlib.suppress(OSError, Failure):  # a target that is lost is made anew, which gives back all
            self.give_back()
