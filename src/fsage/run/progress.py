"""How far a study is and how long it will still take."""

from __future__ import annotations

import math
import time

from fsage.plan.plan import Plan
from fsage.text.sizes import duration


class Progress:
    """Counts the observations of a visit as they appear, against the plan's estimate.

    `cells` and `seconds`: how many a visit of a budget takes, and what is left of its time (inf: it has no end).
    """

    def __init__(self, plan: Plan, state: str, cells: int | None = None, seconds: float | None = None) -> None:
        self.plan, self.state = plan, state
        claim = plan.claim["id"] if plan.claim else ""
        # On another machine there is none: its cells are seen only when they come home at the end of the visit.
        self.folder = plan.target.outbox / claim / plan.study.name / state
        self.visible = plan.target.outbox.parent.is_dir()
        self.began = time.monotonic()
        self.at_start = self._waiting()
        self.seen = 0
        self.total = sum(len(cells) for cells in plan.cells.values())
        self.missing = {
            name: [cell for cell in cells if not self._stored(name, cell.name)] for name, cells in plan.missing.items()
        }
        self.here = len(self.missing.get(state, ())) if cells is None else cells
        self.left_s = self._estimated() if seconds is None else seconds

    def _estimated(self) -> float:
        cells = sum(self.plan.cell_seconds(name, cell) for name, cells in self.missing.items() for cell in cells)
        return cells + sum(map(self.plan.reach_seconds, self.missing))

    def _stored(self, state: str, cell: str) -> bool:
        return self.plan.results.pending(state, cell).exists()

    def _waiting(self) -> int:
        return sum(1 for _ in self.folder.glob("*.json"))

    def __call__(self) -> str:
        """One line while a visit continues."""
        if not self.visible:
            return self._unseen()
        self.seen = max(self.seen, self._waiting() - self.at_start)  # what came home does not wait any more
        return self._line(self.seen)

    def done(self) -> str:
        """One line at the end of a visit, when all its cells came home."""
        return self._line(self.here)

    def _line(self, done: int) -> str:
        before = self.total - sum(len(cells) for cells in self.missing.values())
        return (
            f"{self.plan.title}: {before + done} of {self.total} cells, state {self.state}: "
            f"{done} of {self.here}{self._left()}"
        )

    def _unseen(self) -> str:
        """The progress of cells on another machine."""
        before = self.total - sum(len(cells) for cells in self.missing.values())
        return (
            f"{self.plan.title}: {before} of {self.total} cells are home, state {self.state}: {self.here} to come "
            f"when the visit ends{self._left()}"
        )

    def _left(self) -> str:
        gone_s = time.monotonic() - self.began
        if math.isinf(self.left_s):
            return ""
        if gone_s < self.left_s:
            return f"; about {duration(self.left_s - gone_s)} left"
        return f"; {duration(gone_s)} since it began, longer than the {duration(self.left_s)} that were estimated"
