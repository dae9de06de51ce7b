"""What cells write on a sparse target: begun only where it has room below, measured on blocks that are there already.

The first write to a hole gives the image a block, which would be part of the result. So a cell whose run gave blocks
was a rehearsal: its files are deleted, and it runs again, on the same blocks, because umount and mount start the
allocator anew. Cells of a session usually write to the same places, so that one rehearsal serves many. Those places are
given back (discard) when the session ends, and before where room is short: a hundred cells take no more than two.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fsage.host.evidence import fiemap
from fsage.host.remote.host_agent import measured_files
from fsage.host.stores.filesystem import Range
from fsage.host.targets.target import Target
from fsage.model.observation import PhaseResult
from fsage.model.request import Cell
from fsage.model.typed import Json

MOST_RUNS = 4
IN_PASSING_BYTES = 256 << 10
"""Of metadata, which the kernel writes at its own time, a run may give the image so much."""
KEPT_BYTES = 32 << 20
"""Room that metadata always have."""

Run = tuple[list[PhaseResult], "str | None"]


class SparseRoom:
    """The room below that the cells of one session take; without effect on a target that is not sparse."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.written: dict[Path, set[Range]] = {mount: set() for mount in target.mounts}

    def unavailable_because(self, cell: Cell) -> str | None:
        """Why the cell tells nothing on a sparse target; None where it does."""
        reads_device = any("{device}" in word for phase in cell["phases"] for word in phase["argv"])
        if not self.target.spec["sparse"] or not reads_device or self.target.model_in_place():
            return None
        return "it reads holes of a sparse image, which reach no disk; a device model charges for them"

    def refused(self, cell: Cell) -> str | None:
        """Why a cell is not begun: it writes more than there is room for; None: it may begin."""
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

    def measured(self, run: Callable[[], Run], clean: Callable[[], None]) -> tuple[Run, Json]:
        """Run a cell until it gives the image no blocks any more; its result, and what goes on record.

        `clean` deletes its files between two runs; what it raises is raised.
        """
        rehearsals = list[int]()
        while True:
            before = self.target.taken_below()
            phases, why = run()
            grown = self.target.taken_below() - before
            self.note()
            if why or grown <= IN_PASSING_BYTES:
                return (phases, why), {"rehearsals": rehearsals, "given_bytes": grown}
            rehearsals.append(grown)
            if len(rehearsals) == MOST_RUNS:
                why = f"each of {MOST_RUNS} runs wrote to other holes of the sparse image ({rehearsals} bytes)"
                return (phases, why), {"rehearsals": rehearsals, "given_bytes": grown}
            clean()

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
