"""The limits of a site: hours, the bytes of a day, and the rate of a phase; the claim's, and when a run is to end.

What is under way when the hours end is ended, and counts as not done.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

from fsage.api.host import Call, Instrument, Quota, Stopped, Visit, check_interrupted, usable_bytes, why_not_now
from fsage.api.model import Cell, Failure, Json, Phase, PhaseResult, limits

LOOK_EVERY_S = 1.0


class Limits(Instrument):
    """Keeps to the limits of a site (fsage.model.limits)."""

    order = 9  # it is asked last whether a cell begins, for the bytes of that cell count from then on

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        self.limits = visit.limits
        self.looked = 0.0

    @classmethod
    def wanted(cls, visit: Visit) -> bool:
        return super().wanted(visit) or visit.limits["hours"] is not None

    def refused(self, cell: Cell) -> str | None:
        """Its files fit neither in the free space of a target's own file systems, nor in what is left of the claim."""
        wanted_bytes = cell.get("makes_bytes", 0)
        if not self.target.own_stores:
            try:
                Quota(self.target, known_bytes=self.now.held_bytes).must_hold(wanted_bytes, f"cell {cell['name']}")
            except Failure as why:
                return str(why)
            return None
        left_bytes = sum(map(usable_bytes, self.target.mounts))
        if wanted_bytes <= left_bytes:
            return None
        return (
            f"its files take {wanted_bytes} bytes, and state {self.now.state} has room for {left_bytes}; declare a "
            f"smaller amount_mib for target {self.target.name}, or a larger target"
        )

    def prepared(self, phase: Phase) -> Phase:
        why = limits.why_not_kept(self.limits, phase)
        if why:
            raise Failure(why)
        return limits.kept_to(self.limits, phase, len(self.hosts.client_names))

    def failed_phase(self, phase: Phase, made: list[Path], result: PhaseResult) -> str | None:
        # The phase is over and its times are taken, so the rest is no part of it.
        rested = time.monotonic() + limits.rest_s(
            self.limits, result.get("stdout", ""), result.get("wall_s", 0.0), len(self.hosts.client_names)
        )
        while time.monotonic() < rested:
            check_interrupted()
            self.check()
            time.sleep(min(0.1, max(0.0, rested - time.monotonic())))
        return None

    def check(self) -> None:
        now = time.time()
        if not self.limits["hours"] or abs(now - self.looked) < LOOK_EVERY_S:
            return
        self.looked = now
        if limits.closes_in_s(self.limits["hours"], now) <= 0:
            ended = Stopped(
                f"limits.hours is {self.limits['hours']}, and these hours have ended; the same command resumes in them"
            )
            ended.on_record = False
            raise ended

    def held_up(self, check_alive: Call, cell: Cell | None) -> str | None:
        self.looked = 0.0
        try:
            self.check()
        except Stopped as why:
            return str(why)
        if not cell:
            return None
        return too_late(cast(Json, self.visit.request).get("until"), cell) or why_not_now(
            self.limits, f"cell {cell['name']}", cell.get("estimate_s", 0.0), cell.get("writes_bytes", 0)
        )


def too_late(until: float | None, cell: Cell) -> str | None:
    """Why a cell is not begun: it would end after `until` (seconds since 1970), when the run ends; None: it is."""
    if until is None or time.time() + cell["estimate_s"] <= until:
        return None
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(until))
    return (
        f"cell {cell['name']} takes about {cell['estimate_s']:.0f} s and would not end before {end}, when this run is "
        "to end (until, budget); the same command resumes later"
    )
