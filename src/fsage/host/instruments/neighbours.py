"""Do others suffer from what is done to a target? The limits that a site set (`stop_if`), by a probe and by servers.

A process (fsage.host.instruments.looks) stands for the others. What is usual it sees before the first byte of a run,
and that stays. It looks while fsage works: at states, calibration and the phases of cells. The looks count on from one
cell to the next, also of another command of the same run. This process reads the servers' numbers as often.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, cast

from fsage.base import Failure, Json, JsonView, Refusal
from fsage.host.instruments.instrument import Around, Instrument, Stopped, Visit
from fsage.host.instruments.looks import FILE_BYTES
from fsage.host.remote.remote_hosts import Hosts, inventory_of
from fsage.host.system import commands, files, places
from fsage.host.system.library import BOOT, packed, sent
from fsage.host.targets import claims, directories, kinds
from fsage.host.targets.kinds import Servers
from fsage.host.targets.target import OtherHost, Target
from fsage.model.claim import utc_now
from fsage.model.declaration import EVERY_S, StopIf, probe_limits
from fsage.model.request import Cell, Phase

QUIET = 20
QUIET_EVERY_S = 0.1
LAST = 20
MOST_ABOVE = 2
"""How many of the LAST looks may be above a limit: a tenth, as a tenth of the quiet ones is above what is usual."""
HUNG_S = 15.0
"""Seconds after which a look without an answer is said to have none."""
TOLD_EVERY_S = 1.0
SERVERS = {"server_load": "the load of a server was", "server_ms": "in ms, a request of an OST took"}
"""The counters of servers that can be limited, in words."""


class Busy:
    """What servers have to do, by the counters that are limited. Raises Failure where there are none."""

    def __init__(self, servers: Servers, stop_if: JsonView) -> None:
        self.servers = servers
        self.limits: dict[str, float] = {name: limit for name in SERVERS if (limit := stop_if[name]) is not None}
        self.counted: dict[str, list[int]] = {}
        if self.limits and not self._ask():
            name = next(iter(self.limits))
            raise Failure(f"stop_if.{name}: the inventory names no servers; name them, or set it to null")
        if "server_ms" in self.limits and not self.counted:
            raise Failure("stop_if.server_ms: no server has counters of OSTs (obdfilter.*.stats); set it to null")
        self.asked = time.monotonic()

    def begin(self) -> None:
        """Count from now on."""
        self._ask()

    def take(self) -> Json:
        """Ask now. The time of a request is that of the slowest OST since the question before, 0 where it had none."""
        before = self.counted
        loads = self._ask()
        since = [(now[0] - then[0], now[1] - then[1]) for ost, now in self.counted.items() if (then := before.get(ost))]
        means_ms = [time_us / count / 1000 for count, time_us in since if count > 0]
        seen = {"server_load": max(loads, default=0.0), "server_ms": max(means_ms, default=0.0)}
        return {name: round(seen[name], 3) for name in self.limits}

    def _ask(self) -> list[float]:
        """The load of each server; what their OSTs have counted is in `counted`."""
        self.asked = time.monotonic()
        answers = self.servers.ask_servers(do="busy", osts="server_ms" in self.limits).values() if self.limits else ()
        self.counted = {ost: counts for answer in answers for ost, counts in answer["requests"].items()}
        return [answer["load"] for answer in answers]


class Looks:
    """The process that looks. Raises Failure where it cannot."""

    def __init__(self, target: Target) -> None:
        folder = target.mounts[0] / ".fsage" / directories.PROBE
        self.folder = folder
        try:
            paths = {name: str(path) for name, path in self._files(target).items()}
            code = BOOT + "from fsage.host.instruments import looks; looks.main()"
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            raise Failure(f"stop_if: the probe {folder}: {error.strerror}") from error
        assert self.process.stdout
        self.stdout = self.process.stdout
        self.unread = b""
        self.answered = time.monotonic()
        self.heard: dict[bool, list[Json]] = {True: [], False: []}  # looks, by whether they were beside some work
        self._give(sent(packed()) + json.dumps({"folder": str(folder), "files": paths}).encode() + b"\n")

    def _files(self, target: Target) -> dict[str, Path]:
        """The files that are looked at, made where they are missing."""
        with places.opened(target.mounts[0]) as store, places.inside(store, ".fsage", self.folder.parent) as above:
            places.make_in(above, self.folder)
        paths = target.osts.spread_files(self.folder)
        for path in paths.values():
            if not path.exists() or path.stat().st_size != FILE_BYTES:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
                with open(os.open(path, flags, places.PRIVATE_FILE), "wb") as file:
                    file.write(os.urandom(FILE_BYTES))
                    os.fsync(file.fileno())
        return paths

    def go(self) -> None:
        """Look again and again from now on."""
        self.answered = time.monotonic()
        self._give(b"go\n")

    def rest(self) -> None:
        """Look no more."""
        self._give(b"rest\n")

    def seen(self, beside: bool, wait_s: float = 0.0) -> list[Json]:
        """The looks beside some work, or the others, that nobody has taken yet; it waits at most so long for any.

        Raises Failure.
        """
        while select.select([self.stdout], [], [], wait_s)[0]:
            more = os.read(self.stdout.fileno(), 1 << 16)
            if not more:
                raise Failure(f"stop_if: the process that looks at {self.folder} has ended ({self.process.wait()})")
            self.unread = self.unread + more
            wait_s = 0.0
        *lines, self.unread = self.unread.split(b"\n")
        for line in lines:
            self.answered = time.monotonic()
            look = json.loads(line)
            self.heard[look.pop("beside")].append(look)
        taken = self.heard[beside]
        self.heard[beside] = []
        return taken

    def once(self, check_alive: Callable[[], None]) -> Json:
        """Look once now, not as the others do beside some work."""
        self._give(b"look\n")
        deadline = time.monotonic() + HUNG_S
        while time.monotonic() < deadline:
            check_alive()
            looks = self.seen(beside=False, wait_s=0.2)
            if looks:
                return looks[-1]
        return {"failed": f"no answer within {HUNG_S:.0f} s"}

    def end(self) -> None:
        """End it; one that hangs in a call ends with that."""
        assert self.process.stdin
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)
        self.process.kill()
        self.stdout.close()

    def _give(self, words: bytes) -> None:
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):  # `seen` says so
            self.process.stdin.write(words)


def busy_there(host: OtherHost, osts: bool) -> Json:
    """How many processes ran, or waited for a device, in the last minute; what `osts` of this server have done."""
    requests = kinds.named(host.spec["kind"]).requests_here(host.spec) if osts else {}
    return {"load": os.getloadavg()[0], "requests": requests}


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
        names = [name for name in quiet[0] if name != "at"]
        return {name: sorted(look[name] for look in quiet)[-1 - MOST_ABOVE * QUIET // LAST] for name in names}

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

    def held_up(self, check_alive: Callable[[], None], cell: Cell | None) -> str | None:
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
        if self.last and (why := self.last[-1].get("failed")):
            return f"stop_if: the probe beside {self.what} failed: {why}"
        for name, limit in self.limits.items():
            values = [look[name] for look in self.last if name in look][-LAST:]
            above = [value for value in values if value > limit]
            in_row = len(values) >= in_a_row and min(values[-in_a_row:]) > limit
            if in_row or len(above) > max(MOST_ABOVE, in_a_row - 1):
                shown = values[-in_a_row:] if in_row else above[-in_a_row:]
                return self._words(name, shown, f"beside {self.what}")
        return None

    def _now(self, check_alive: Callable[[], None]) -> str | None:
        """Why others suffer although fsage does nothing: by `in_a_row` looks; None: one was below the limits."""
        looks = [self._look(check_alive)]
        while name := self._slow(looks[-1]):
            if len(looks) == self.stop_if["in_a_row"]:
                break
            time.sleep(QUIET_EVERY_S)
            looks.append(self._look(check_alive))
        if name is None:
            return None
        why = looks[-1].get("failed")
        if why:
            return f"stop_if: the probe failed: {why}"
        return self._words(name, [look[name] for look in looks if name in look], "while fsage did nothing")

    def _look(self, check_alive: Callable[[], None]) -> Json:
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

    def _wait(self, why: str, check_alive: Callable[[], None]) -> bool:
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
