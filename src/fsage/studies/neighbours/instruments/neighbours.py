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
from typing import ClassVar, cast

from fsage.base import Call, Failure, Json, Refusal
from fsage.host.instruments import Around, Instrument, Stopped, Visit
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.system import commands, files
from fsage.host.targets import claims
from fsage.host.targets.kinds import Servers
from fsage.model.claim import utc_now
from fsage.model.declaration import EVERY_S, StopIf, probe_limits
from fsage.model.request import Cell, Phase

from .probe import HUNG_S, SERVERS, Busy, Looks, busy_there

QUIET = 20
QUIET_EVERY_S = 0.1
LAST = 20
MOST_ABOVE = 2
"""How many of the LAST looks may be above a limit: a tenth, as a tenth of the quiet ones is above what is usual."""
TOLD_EVERY_S = 1.0


class Neighbours(Instrument):
    """The limits of a site, for a command of a run. Raises Failure where they cannot be looked at."""

    name = "probe"
    order = 3
    remote: ClassVar = {"busy": busy_there}

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        target, stop_if, holder = visit.target, cast(StopIf, visit.target.spec["stop_if"]), visit.request.get("holder")
        run = holder["run"] if holder else ""
        self.leads = (target.home / "claim.json").exists()  # other clients take from the note what is usual
        if not self.leads:  # the launcher asks the servers
            stop_if = cast(StopIf, {**stop_if, **dict.fromkeys(SERVERS)})
        self.stop_if = stop_if
        with contextlib.ExitStack() as stack:
            self.busy = Busy(self._servers(stack), stop_if)
            self.looks = Looks(target)
            stack.callback(self.looks.end)
            self.note = self.looks.folder / "note.json"
            noted = files.read_json(self.note)
            if not noted or (self.leads and noted["run"] != run):
                waits = noted["waits"] if noted else []
                noted = {"run": run, "usual_since": utc_now(), "usual_ms": self._usual(), "last": [], "waits": waits}
            self.noted: Json = {**noted, "stopped": None}
            self._keep()
            self.started = stack.pop_all()
        self.limits = {**probe_limits(stop_if, noted["usual_ms"]), **self.busy.limits}
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

    def _servers(self, stack: contextlib.ExitStack) -> Servers:
        """Who reaches the servers: by connections of its own, which `stack` ends, only where a limit needs them."""
        if self.visit.hosts or not any(cast(Json, self.stop_if)[name] is not None for name in SERVERS):
            return self.visit.hosts or self.target.osts
        inventory = inventory_of(self.visit.request)
        alone = Hosts(self.target.spec, self.target.claim, {**inventory, "clients": inventory["clients"][:1]})
        return stack.enter_context(contextlib.closing(alone))

    def _usual(self) -> dict[str, float]:
        """The 90th percentile of each part of QUIET looks."""
        quiet: list[Json] = []
        for _ in range(QUIET):
            time.sleep(QUIET_EVERY_S)
            quiet.append(self.looks.once(commands.check_interrupted))
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
        seen.update(self._of_cell(began))

    def around_phase(self, phase: Phase, cell: Cell) -> Around:
        return self.around_step(f"phase {phase['name']}{self.cell}")

    @contextlib.contextmanager
    def around_step(self, what: str) -> Iterator[Json]:
        self.what = what
        self.working = True
        self.busy.begin()
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
            if time.monotonic() - self.busy.asked > EVERY_S:
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
            files.write_json(self.note, self.noted)

    def _told(self) -> str | None:
        """Why the client that launches has stopped, for the others that work on the same step; it asks servers too."""
        if self.leads or time.monotonic() - self.asked < TOLD_EVERY_S:
            return None
        self.asked = time.monotonic()
        noted = files.read_json(self.note) or {}
        stopped: str | None = noted.get("stopped")
        return stopped

    def _of_cell(self, began: float) -> Json:
        """What is on record of a cell; the waits are those since the last one."""
        of_run = {key: self.noted[key] for key in ("usual_ms", "usual_since", "waits")}
        self.noted["waits"] = []
        limits_ms = {name: limit for name, limit in self.limits.items() if name not in SERVERS}
        seen = {**of_run, "limits_ms": limits_ms, "taken": [], "servers": [], "stopped": self.why}
        for look in self.taken:
            of_servers = not SERVERS.keys().isdisjoint(look)
            seen["servers" if of_servers else "taken"].append({**look, "at": round(look["at"] - began, 3)})
        return seen

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
        silent_s = time.monotonic() - self.looks.answered - EVERY_S
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
        return {**self.looks.once(check_alive), **(self.busy.take() if self.busy.limits else {})}

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
        claims.note_doing(self.target.home, f"waiting, at most {minutes:g} minutes: {why}")
        wait: Json = {"began": utc_now(), "during": self.what, "why": why}
        self.noted["waits"].append(wait)
        while time.monotonic() - began < 60 * minutes:
            suffer = self._slow(self._look(check_alive)) or self._told()
            below = 0 if suffer else below + 1
            wait["seconds"] = round(time.monotonic() - began, 1)
            if below == self.stop_if["in_a_row"]:
                claims.note_doing(self.target.home, self.what or "going on")
                return True
            deadline = time.monotonic() + EVERY_S
            while time.monotonic() < deadline:
                check_alive()
                time.sleep(0.1)
        self._keep()
        return False
