"""The tasks of a phase: started on this host or, by MPI's launcher, on several, and connected to the coordinator.

Tasks on this host alone have pipes, and nothing listens. Those on several hosts connect over TCP, to a port that is
open until they have come (fsage.host.netflow.door). The phase's key is in their environment: Open MPI is told the
variable's name alone, and takes the value from ours, as other launchers do unasked. What tasks say is JSON.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from fsage.host.netflow import worker
from fsage.host.netflow.assignment import Assignment
from fsage.host.netflow.door import Door
from fsage.host.netflow.greeting import KEY
from fsage.host.system.library import packed
from fsage.model import typed
from fsage.model.errors import Failure

PATIENCE_S = 60.0
LOOK_EVERY_S = 0.2
FORK = multiprocessing.get_context("fork")


class Task(NamedTuple):
    """One that is connected."""

    there: Connection
    host: str
    pid: int


class Tasks:
    """So many tasks; `launcher`: MPI's command line before the program, none to fork them here. Close them."""

    def __init__(self, count: int, launcher: Sequence[str], towards: str | None) -> None:
        self.count = count
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by `close`
        self.connections: list[Connection] = []
        self.children: list[Any] = []
        self.launched: subprocess.Popen[Any] | None = None
        self.code = b""  # for who has nothing of fsage
        self.door: Door | None = None
        if launcher:
            key = secrets.token_bytes(32)
            self.door = Door(key, count, towards)
            program = [sys.executable, "-S", "-c", worker.program(), self.door.address, str(self.door.port)]
            self._launch([*launcher, *program], key)
        else:
            for _ in range(count):
                here, there = FORK.Pipe()
                self.connections.append(here)
                child = FORK.Process(target=worker.forked, args=(there, self.connections), daemon=True)
                child.start()
                there.close()
                self.children.append(child)

    def meet(self, asked: Assignment) -> list[Task]:
        """Every task, ready for its first share. Raises Failure when one cannot be had."""
        ready: list[Task] = []
        unnamed: dict[Connection, Task | None] = dict.fromkeys(self.connections)
        deadline = time.monotonic() + PATIENCE_S
        while len(ready) < self.count:
            self._starting(deadline, len(ready))
            for one in wait([*(self.door.waits_for() if self.door else ()), *unnamed], LOOK_EVERY_S):
                if isinstance(one, socket.socket):
                    for there in self.door.enter(one) if self.door else ():
                        self.connections.append(there)
                        unnamed[there] = None
                    continue
                assert isinstance(one, Connection)  # nothing else was asked about
                if task := self._answered(one, unnamed, asked):
                    ready.append(task)
        self._shut()
        return ready

    def close(self) -> None:
        """End every task that is still there."""
        self._shut()
        for there in self.connections:
            there.close()
        for child in self.children:
            child.join(timeout=0.5)
            child.kill()
            child.join()
        if self.launched:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.launched.wait(timeout=5)
            self.launched.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.launched.wait(timeout=5)
            self.launched.kill()
            self.launched.wait()
        self.said.close()

    def last_words(self) -> str:
        """What the launcher last said, if anything."""
        self.said.seek(0)
        return self.said.read().strip().rpartition("\n")[2]

    def _shut(self) -> None:
        if self.door:
            self.door.close()
            self.door = None

    def _launch(self, argv: list[str], key: bytes) -> None:
        environment = {**os.environ, KEY: key.hex()}
        quiet = subprocess.DEVNULL
        try:
            self.launched = subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=self.said, env=environment)
        except OSError as error:
            raise Failure(f"{argv[0]} does not start on {os.uname().nodename}: {error.strerror}") from error

    def _starting(self, deadline: float, ready: int) -> None:
        if self.door:
            self.door.drop_late()
        ended = [child for child in self.children if child.exitcode is not None]
        if ended or (self.launched and self.launched.poll() is not None):
            raise Failure(f"a task ended before it had begun: {self.last_words() or 'it said nothing'}")
        if time.monotonic() > deadline:
            raise Failure(
                f"{ready} of {self.count} tasks came within {PATIENCE_S:.0f} s: {self.last_words()}; "
                f"all clients must reach {os.uname().nodename} over TCP"
            )

    def _answered(self, there: Connection, unnamed: dict[Connection, Task | None], asked: Assignment) -> Task | None:
        """Answer what a task says before it is ready; the task when it is."""
        try:
            said = there.recv_bytes(worker.MOST_SAID_BYTES)
        except (EOFError, OSError):
            raise Failure(f"a task ended before it had begun: {self.last_words() or 'it said nothing'}") from None
        if said == b"code":
            self.code = self.code or packed()
            there.send_bytes(self.code)
        elif unnamed[there] is None:
            named = worker.read(said)
            unnamed[there] = Task(there, named["host"], named["pid"])
            worker.say(there, {"asked": typed.to_json(asked), "number": self.connections.index(there)})
        else:
            return unnamed.pop(there)
        return None
