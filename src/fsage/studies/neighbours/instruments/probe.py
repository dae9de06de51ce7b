"""What stands for the others on a target's file system: the process that looks, and what its servers have to do."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from pathlib import Path

from fsage.api.host import Call, OtherHost, Target, Visit, at_hand, kernel, probe_folder, target_kinds
from fsage.api.model import Failure, Json, JsonView, in_words

from . import looks

PROGRAM = ["env", "PYTHONPATH={agent}", "{python}", "-S", "-m", looks.__name__]
HUNG_S = 15.0
"""Seconds after which a look without an answer is said to have none."""
SERVERS = {"server_load": "the load of a server was", "server_ms": "in ms, a request of an OST took"}
"""The counters of servers that can be limited, in words."""


class Busy:
    """What servers have to do, by the counters that are limited. Raises Failure where there are none.

    `open_now` ends the connections to servers, which there are only where a limit needs them.
    """

    def __init__(self, visit: Visit, stop_if: JsonView, open_now: contextlib.ExitStack) -> None:
        self.limits: dict[str, float] = {name: stop_if[name] for name in SERVERS if stop_if[name] is not None}
        self.counted: dict[str, list[int]] = {}
        self.asked = time.monotonic()
        if not self.limits:
            return
        self.servers = open_now.enter_context(visit.servers())
        if not self.ask():
            name = next(iter(self.limits))
            raise Failure(f"stop_if.{name}: the inventory names no servers; name them, or set it to null")
        if "server_ms" in self.limits and not self.counted:
            raise Failure("stop_if.server_ms: no server has counters of OSTs (obdfilter.*.stats); set it to null")

    def take(self) -> Json:
        """Ask now. The time of a request is that of the slowest OST since the question before, 0 where it had none."""
        before = self.counted
        loads = self.ask()
        means_ms = []
        for ost, (count, time_us) in self.counted.items():
            count_before, time_before_us = before.get(ost, (count, time_us))
            if count > count_before:
                means_ms.append((time_us - time_before_us) / (count - count_before) / 1000)
        seen = {"server_load": max(loads, default=0.0), "server_ms": max(means_ms, default=0.0)}
        return {name: round(seen[name], 3) for name in self.limits}

    def ask(self) -> list[float]:
        """The load of each server; what their OSTs have counted is in `counted`, and counts on from there."""
        self.asked = time.monotonic()
        self.counted = {}
        if not self.limits:
            return []
        answers = self.servers.ask_servers(do="busy", osts="server_ms" in self.limits).values()
        for answer in answers:
            self.counted.update(answer["requests"])
        return [answer["load"] for answer in answers]


class Looks:
    """The process that looks. Raises Failure where it cannot."""

    def __init__(self, target: Target) -> None:
        try:
            self.folder = probe_folder(target.mounts[0])
            paths = {name: str(path) for name, path in self._files(target).items()}
            program = [*PROGRAM, str(self.folder), "{files}/looked"]
            with at_hand(program, {"looked": json.dumps(paths)}) as (argv, files):
                self.process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    bufsize=0,
                    pass_fds=files,
                    start_new_session=True,
                )
        except OSError as error:
            raise Failure(f"stop_if: the probe on {target.mounts[0]}: {in_words(error)}") from error
        assert self.process.stdout
        self.stdout = self.process.stdout
        self.unread = b""
        self.answered = time.monotonic()
        self.heard: dict[bool, list[Json]] = {True: [], False: []}  # looks, by whether they were beside some work

    def _files(self, target: Target) -> dict[str, Path]:
        """The files that are looked at, made where they are missing."""
        paths = target.osts.spread_files(self.folder)
        for path in paths.values():
            if not path.exists() or path.stat().st_size != looks.FILE_BYTES:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
                with kernel.opened(path, flags) as descriptor:
                    os.write(descriptor, os.urandom(looks.FILE_BYTES))
                    os.fsync(descriptor)
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

    def once(self, check_alive: Call) -> Json:
        """Look once now, not as the others do beside some work."""
        self._give(b"look\n")
        deadline = time.monotonic() + HUNG_S
        while time.monotonic() < deadline:
            check_alive()
            seen = self.seen(beside=False, wait_s=0.2)
            if seen:
                return seen[-1]
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
    requests = target_kinds.named(host.spec["kind"]).requests_here(host.spec) if osts else {}
    return {"load": os.getloadavg()[0], "requests": requests}
