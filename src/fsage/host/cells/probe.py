"""A small probe beside the load, which stands for the others who use the file system: do they suffer?

It looks up a name that is not there, which no cache knows, and reads 1 MiB past the page cache. Before the first cell
it is taken QUIET times: what is usual. Beside a cell it is taken every EVERY_S, in a thread. An answer that does not
come for long stops the cell too. Servers are asked as often, by the thread that measures.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import threading
import time
import uuid
from collections.abc import Callable

from fsage.host.targets.kinds import Servers
from fsage.host.targets.target import Target
from fsage.model import MIB
from fsage.model.errors import Failure
from fsage.model.stop_if import EVERY_S, StopIf, limits
from fsage.model.typed import Json, JsonView

QUIET, QUIET_EVERY_S = 20, 0.1
HUNG_S = 15.0
"""A probe without an answer for so long beyond its limit is told of as such."""
SERVERS = {"server_load": "the load of a server was", "server_ms": "in ms, a request of an OST took"}
"""The counters of servers that can be limited, in words."""


class Stopped(Failure):
    """Others suffer: what runs is ended."""


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
        self.taken: list[dict[str, float]] = []

    def begin(self) -> None:
        """Count from now on."""
        self.taken = []
        self._ask()

    def take(self) -> dict[str, float]:
        """Ask now. The time of a request is that of the slowest OST since the question before, 0 where it had none."""
        before, loads = self.counted, self._ask()
        since = [(now[0] - then[0], now[1] - then[1]) for ost, now in self.counted.items() if (then := before.get(ost))]
        means_ms = [time_us / count / 1000 for count, time_us in since if count > 0]
        seen = {"server_load": max(loads, default=0.0), "server_ms": max(means_ms, default=0.0)}
        self.taken.append({name: round(seen[name], 3) for name in self.limits})
        return self.taken[-1]

    def above(self, taken: dict[str, float]) -> list[str]:
        """Which counters are above their limits."""
        return [name for name, limit in self.limits.items() if taken[name] > limit]

    def _ask(self) -> list[float]:
        """The load of each server; what their OSTs have counted is in `counted`."""
        answers = self.servers.ask_servers(do="busy", osts="server_ms" in self.limits).values() if self.limits else ()
        self.counted = {ost: counts for answer in answers for ost, counts in answer["requests"].items()}
        return [answer["load"] for answer in answers]


class Probe:
    """The probe of a session. Raises Failure where it cannot be taken."""

    def __init__(self, target: Target, stop_if: StopIf, servers: Servers) -> None:
        self.stop_if, self.file, self.busy = stop_if, target.mounts[0] / ".fsage/probe", Busy(servers, stop_if)
        self.stopped: str | None = None
        self.thread: threading.Thread | None = None
        try:
            self.file.write_bytes(os.urandom(MIB))
            with open(self.file, "rb") as file:
                os.fsync(file.fileno())
            quiet = []
            for _ in range(QUIET):
                time.sleep(QUIET_EVERY_S)
                quiet.append(self._take())
        except OSError as error:
            raise Failure(f"stop_if: the probe {self.file}: {error.strerror}") from error
        self.usual = {name: sorted(taken[name] for taken in quiet)[-1] for name in ("stat", "read")}
        self.limits = limits(stop_if, self.usual)
        self.taken: list[Json] = []

    def begin(self) -> None:
        """Take it every EVERY_S from now on."""
        self.busy.begin()
        self.taken, self.stopped, self.ended = [], None, threading.Event()
        self.began = self.running_since = time.monotonic()
        self.thread = threading.Thread(target=self._repeat, daemon=True)
        self.thread.start()

    def end(self) -> Json:
        """Take it no more; what it saw, for the record."""
        if self.thread:
            self.ended.set()
            self.thread.join(HUNG_S)
            self.thread = None
        seen = {"usual_ms": self.usual, "limits_ms": self.limits, "taken": self.taken, "stopped": self.stopped}
        return {**seen, "servers": self.busy.taken} if self.busy.taken else seen

    def check(self) -> None:
        """Raise Stopped as soon as others suffer; called often while a command runs."""
        if self.thread and (why := self._overloaded() or self._why()):
            self.stopped = why
            raise Stopped(why)

    def close(self) -> None:
        """Remove its file."""
        self.end()
        with contextlib.suppress(OSError):
            self.file.unlink()

    def wait(self, check_alive: Callable[[], None]) -> bool:
        """Wait until others no longer suffer, by `in_a_row` probes below the limits; whether that came in time.

        `check_alive` is called between; what it raises ends the wait.
        """
        deadline, below = time.monotonic() + 60 * self.stop_if["wait_minutes"], 0
        while time.monotonic() < deadline:
            below = 0 if self.busy.above(self.busy.take()) or self._slow(self._take()) else below + 1
            if below == self.stop_if["in_a_row"]:
                return True
            check_alive()
            time.sleep(EVERY_S)
        return False

    def _repeat(self) -> None:
        while not self.ended.wait(EVERY_S):
            self.running_since = time.monotonic()
            at_s = round(self.running_since - self.began, 3)
            try:
                self.taken.append({"at_s": at_s, **self._take()})
            except OSError as error:
                self.taken.append({"at_s": at_s, "failed": str(error.strerror)})

    def _overloaded(self) -> str | None:
        """Why the servers have too much to do, by the last answers; None: they have not, or are not asked."""
        if not self.busy.limits:
            return None
        if time.monotonic() - self.began > EVERY_S * (1 + len(self.busy.taken)):
            self.busy.take()
        last = self.busy.taken[-self.stop_if["in_a_row"] :]
        if len(last) < self.stop_if["in_a_row"]:
            return None
        name = next((name for name in self.busy.limits if all(name in self.busy.above(taken) for taken in last)), None)
        if name is None:
            return None
        were = ", ".join(f"{taken[name]:.1f}" for taken in last)
        return f"stop_if: {SERVERS[name]} {were}, and the limit is {self.busy.limits[name]:g}"

    def _why(self) -> str | None:
        last = self.taken[-self.stop_if["in_a_row"] :]
        waiting_ms = 1000 * (time.monotonic() - self.running_since - EVERY_S)
        if waiting_ms > max(self.limits.values(), default=0) + 1000 * max(HUNG_S, EVERY_S * self.stop_if["in_a_row"]):
            return f"stop_if: a probe beside the load has no answer after {waiting_ms / 1000:.0f} s"
        if len(last) < self.stop_if["in_a_row"]:
            return None
        if why := last[-1].get("failed"):
            return f"stop_if: the probe beside the load failed: {why}"
        name = next((name for name in self.limits if all(name in self._slow(taken) for taken in last)), None)
        if name is None:
            return None
        took = ", ".join(f"{taken[name]:.1f}" for taken in last)
        return (
            f"stop_if: others suffer: the probe ({name}) took {took} ms, and the limit is {self.limits[name]:.1f} ms "
            f"({self.usual[name]:.1f} ms is usual)"
        )

    def _slow(self, taken: Json) -> list[str]:
        """Which parts of a probe are above their limits."""
        if "failed" in taken:
            return ["failed"]
        return [name for name, limit_ms in self.limits.items() if taken[name] > limit_ms]

    def _take(self) -> dict[str, float]:
        """The time of a look-up and of a read, in ms. Raises OSError."""
        began = time.monotonic()
        with contextlib.suppress(FileNotFoundError):
            os.stat(self.file.with_name(f"no-{uuid.uuid4().hex}"))
        then = time.monotonic()
        flags = os.O_RDONLY | os.O_NOFOLLOW
        try:
            descriptor = os.open(self.file, flags | os.O_DIRECT)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system without direct I/O
                raise
            descriptor = os.open(self.file, flags)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            with mmap.mmap(-1, MIB) as buffer:
                os.preadv(descriptor, [buffer], 0)
        finally:
            os.close(descriptor)
        return {"stat": round(1000 * (then - began), 3), "read": round(1000 * (time.monotonic() - then), 3)}
