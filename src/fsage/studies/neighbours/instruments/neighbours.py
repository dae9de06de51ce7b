"""Do others suffer from what is done to a target? The limits that a site set (`stop_if`), by a probe and by servers.

A process (the module looks) stands for the others. What is usual it sees before the first byte of a run,
and that stays. It looks while fsage works: at states, calibration and the phases of cells. The looks count on from one
cell to the next, also of another command of the same run. This process reads the servers' numbers as often.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import ClassVar, cast

from fsage.api.host import Call, Instrument, Stopped, Visit, check_interrupted, note_doing, read_json, write_json
from fsage.api.model import PROBE_EVERY_S, Cell, Failure, Json, Phase, Refusal, StopIf, utc_now

from .probe import HUNG_S, SERVERS, Busy, Looks, busy_there

QUIET = 20
QUIET_EVERY_S = 0.1
LAST = 20
MOST_ABOVE = 2
"""How many of the LAST looks may be above a limit: a tenth, as a tenth of the quiet ones is above what is usual."""
TOLD_EVERY_S = 1.0
FLOOR_MS = 0.2
"""Nobody suffers from less, however fast the same is usually: so long a busy processor takes."""


def probe_limits(stop_if: StopIf, usual: dict[str, float]) -> dict[str, float]:
    """The limit of each part of the probe in ms: the smaller of the absolute one and the multiple of the usual.

    A part is a kind, `stat`, `read` or `write`, with the name of an OST where there are any.
    """
    absolute = {"stat": stop_if["stat_ms"], "read": stop_if["read_ms"], "write": stop_if["write_ms"]}
    limit = {}
    for name, usual_ms in usual.items():
        absolute_ms = absolute[name.split()[0]]
        slower_ms = max(stop_if["slower"] * usual_ms, usual_ms + FLOOR_MS) if stop_if["slower"] else None
        both = [absolute_ms, slower_ms]
        known = [value for value in both if value is not None]
        if known:
            limit[name] = min(known)
    return limit


class Neighbours(Instrument):
    """The limits of a site, for a command of a run. Raises Failure where they cannot be looked at."""

    name = "probe"
    order = 3
    remote: ClassVar = {"busy": busy_there}

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        holder = visit.request.get("holder")
        run = holder["run"] if holder else ""
        self.stop_if = cast(StopIf, self.target.spec["stop_if"])
        self.leads = (self.target.home / "claim.json").exists()  # other clients take from the note what is usual
        if not self.leads:  # the launcher asks the servers
            self.stop_if = cast(StopIf, {**self.stop_if, **dict.fromkeys(SERVERS)})
        with contextlib.ExitStack() as open_now:
            self.busy = Busy(visit, self.stop_if, open_now)
            self.looks = Looks(self.target)
            open_now.callback(self.looks.end)
            self.note = self.looks.folder / "note.json"
            noted = read_json(self.note)
            if not noted or (self.leads and noted["run"] != run):
                waits = noted["waits"] if noted else []
                noted = {"run": run, "usual_since": utc_now(), "usual_ms": self._usual(), "last": [], "waits": waits}
            self.noted: Json = {**noted, "stopped": None}
            self._keep()
            self.started = open_now.pop_all()
        self.limits = {**probe_limits(self.stop_if, noted["usual_ms"]), **self.busy.limits}
        self.last: list[Json] = noted["last"]
        self.taken: list[Json] = []
        self.why: str | None = None  # others suffer
        self.what = ""
        self.cell = ""
        self.working = False
        self.asked = 0.0

    @classmethod
    def wanted(cls, visit: Visit) -> bool:
        return bool(visit.target.spec["stop_if"])

    def _usual(self) -> dict[str, float]:
        """The 90th percentile of each part of QUIET looks."""
        quiet: list[Json] = []
        for _ in range(QUIET):
            time.sleep(QUIET_EVERY_S)
            quiet.append(self.looks.once(check_interrupted))
            why = quiet[-1].get("failed")
            if why:
                raise Failure(f"stop_if: the probe {self.looks.folder}: {why}")
        usual = {}
        for name in quiet[0]:
            if name != "at":
                took = sorted(look[name] for look in quiet)
                usual[name] = took[-1 - MOST_ABOVE * QUIET // LAST]
        return usual

    @contextlib.contextmanager
    def around_cell(self, cell: Cell) -> Iterator[Json]:
        seen: Json = {}
        self.taken = []
        self.cell = f" of cell {cell['name']}"
        began = time.monotonic()
        yield seen
        for key in ("usual_ms", "usual_since", "waits"):
            seen[key] = self.noted[key]
        self.noted["waits"] = []  # the next cell has those since this one
        limits_ms = {name: limit for name, limit in self.limits.items() if name not in SERVERS}
        seen.update(limits_ms=limits_ms, taken=[], servers=[], stopped=self.why)
        for look in self.taken:
            of_servers = not SERVERS.keys().isdisjoint(look)
            seen["servers" if of_servers else "taken"].append({**look, "at": round(look["at"] - began, 3)})

    def around_phase(self, phase: Phase, cell: Cell) -> AbstractContextManager[Json]:
        return self.around_step(f"phase {phase['name']}{self.cell}")

    @contextlib.contextmanager
    def around_step(self, what: str) -> Iterator[Json]:
        self.what = what
        self.working = True
        self.busy.ask()
        self.looks.go()
        try:
            yield {}
        finally:
            self.working = False
            self.looks.rest()
            self._hear()
            self._ask_servers()
            self.why = self.why or self._above()

    def check(self) -> None:
        if self.working:
            self._hear()
            if time.monotonic() - self.busy.asked > PROBE_EVERY_S:
                self._ask_servers()
            self.why = self.why or self._told() or self._hung() or self._above()
        if self.why:
            raise Stopped(self.why)

    def held_up(self, check_alive: Call, cell: Cell | None) -> str | None:
        why = self.why or self._now(check_alive)
        if why:
            self.noted["stopped"] = why
            self._keep()
            if self.stop_if["then"] == "wait" and self._wait(why, check_alive):
                self.noted["stopped"] = why = None
                self._keep()
        if self.why:
            self.last.clear()
        if why:
            return f"{why}; the same command resumes"
        self.why = None
        return None

    def close(self) -> None:
        self.started.close()
        with contextlib.suppress(OSError, Failure, Refusal):  # the target is lost: then nothing is kept
            self._keep()

    def _keep(self) -> None:
        if self.leads:
            write_json(self.note, self.noted)

    def _told(self) -> str | None:
        """Why the client that launches has stopped, for the others that work on the same step; it asks servers too."""
        if self.leads or time.monotonic() - self.asked < TOLD_EVERY_S:
            return None
        self.asked = time.monotonic()
        noted = read_json(self.note) or {}
        return cast("str | None", noted.get("stopped"))

    def _hear(self) -> None:
        """Take over what was seen beside the work."""
        self._count(self.looks.seen(beside=True))

    def _ask_servers(self) -> None:
        if self.busy.limits:
            self._count([{"at": time.monotonic(), **self.busy.take()}])

    def _count(self, looks: list[Json]) -> None:
        for look in looks:
            if "failed" in look:
                self.why = self.why or f"stop_if: the probe beside {self.what} failed: {look['failed']}"
        self.taken += looks
        self.last += looks
        del self.last[: -2 * LAST]  # of the probe, and of servers

    def _hung(self) -> str | None:
        silent_s = time.monotonic() - self.looks.answered - PROBE_EVERY_S
        longest_s = max(self.limits.values(), default=0.0) / 1000
        if silent_s < HUNG_S + longest_s:
            return None
        return f"stop_if: the probe beside {self.what} has no answer after {silent_s:.0f} s"

    def _above(self) -> str | None:
        """Why others suffer, by the last looks; None: they do not."""
        in_a_row = self.stop_if["in_a_row"]
        for name, limit in self.limits.items():
            values = [look[name] for look in self.last if name in look][-LAST:]
            above = [value for value in values if value > limit]
            in_row = len(values) >= in_a_row and min(values[-in_a_row:]) > limit
            if in_row or len(above) > max(MOST_ABOVE, in_a_row - 1):
                shown = values[-in_a_row:] if in_row else above[-in_a_row:]
                return self._words(name, shown, f"beside {self.what}")
        return None

    def _now(self, check_alive: Call) -> str | None:
        """Why others suffer although fsage does nothing: by `in_a_row` looks; None: one was below the limits."""
        looks: list[Json] = []
        while len(looks) < self.stop_if["in_a_row"]:
            if looks:
                time.sleep(QUIET_EVERY_S)
            looks.append(self._look(check_alive))
            name = self._slow(looks[-1])
            if not name:
                return None
        assert name
        why = looks[-1].get("failed")
        if why:
            return f"stop_if: the probe failed: {why}"
        return self._words(name, [look[name] for look in looks if name in look], "while fsage did nothing")

    def _look(self, check_alive: Call) -> Json:
        """A look while fsage does nothing."""
        return {**self.looks.once(check_alive), **self.busy.take()}

    def _slow(self, look: Json) -> str | None:
        """What of a look is above its limit, if anything."""
        if "failed" in look:
            return "failed"
        return next((name for name, limit in self.limits.items() if look.get(name, -math.inf) > limit), None)

    def _words(self, name: str, values: list[float], when: str) -> str:
        took = ", ".join(f"{value:.4g}" for value in values)
        limit = self.limits[name]
        if name in SERVERS:
            return f"stop_if: {SERVERS[name]} {took} {when}, and the limit is {limit:g}"
        return (
            f"stop_if: others suffer: the probe ({name}) took {took} ms {when}, and the limit is {limit:.4g} ms "
            f"({self.noted['usual_ms'][name]:.4g} ms is usual)"
        )

    def _wait(self, why: str, check_alive: Call) -> bool:
        """Wait until others no longer suffer, by `in_a_row` looks below the limits; whether that came in time."""
        began = time.monotonic()
        below = 0
        minutes = self.stop_if["wait_minutes"]
        note_doing(self.target.home, f"waiting, at most {minutes:g} minutes: {why}")
        wait: Json = {"began": utc_now(), "during": self.what, "why": why}
        self.noted["waits"].append(wait)
        while time.monotonic() - began < 60 * minutes:
            suffer = self._slow(self._look(check_alive)) or self._told()
            below = 0 if suffer else below + 1
            wait["seconds"] = round(time.monotonic() - began, 1)
            if below == self.stop_if["in_a_row"]:
                note_doing(self.target.home, self.what or "going on")
                return True
            deadline = time.monotonic() + PROBE_EVERY_S
            while time.monotonic() < deadline:
                check_alive()
                time.sleep(0.1)
        self._keep()
        return False
