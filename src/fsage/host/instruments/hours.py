"""The hours of a site: what is under way when they end is ended, and counts as not done."""

from __future__ import annotations

import time
from collections.abc import Callable

from fsage.host.instruments.instrument import Instrument, Stopped
from fsage.model import limits

LOOK_EVERY_S = 1.0


class Hours(Instrument):
    """Ends the work when `limits.hours` end."""

    def __init__(self, hours: str) -> None:
        self.hours, self.looked, self.why = hours, 0.0, ""

    def check(self) -> None:
        now = time.time()
        if abs(now - self.looked) < LOOK_EVERY_S:
            return
        self.looked = now
        if limits.closes_in_s(self.hours, now) <= 0:
            ended = Stopped(
                f"limits.hours is {self.hours}, and these hours have ended; the same command resumes in them"
            )
            ended.on_record = False
            raise ended

    def held_up(self, check_alive: Callable[[], None]) -> str | None:
        self.looked = 0.0
        try:
            self.check()
        except Stopped as why:
            return str(why)
        return None
