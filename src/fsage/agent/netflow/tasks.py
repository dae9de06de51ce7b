"""The tasks of a phase: started on this host or, by MPI's launcher, on several, and connected to the coordinator.

They connect over TCP, to a port that is open while the phase runs (on one host to this host only). Each side proves by
HMAC that it has the phase's key, which tasks find in their environment; what they say is JSON.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from typing import Any, NamedTuple

from fsage.agent.errors import Failure
from fsage.agent.hosts.library import packed
from fsage.agent.netflow import worker

PATIENCE_S = 60.0
HANDSHAKE_S = 5
LOOK_EVERY_S = 0.2
FORK = multiprocessing.get_context("fork")


class Task(NamedTuple):
    """One that is connected."""

    there: Connection
    host: str
    pid: int


class Tasks:
    """So many tasks; `launcher`: MPI's command line before the program, none to fork them here. Close them."""

    def __init__(self, count: int, launcher: Sequence[str], host: str | None) -> None:
        self.count, self.key = count, secrets.token_bytes(32)
        self.listening = socket.create_server(("" if launcher else "127.0.0.1", 0), backlog=count)
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by `close`
        self.connections: list[Connection] = []
        self.children: list[Any] = []
        self.launched: subprocess.Popen | None = None
        self.code = b""  # for who has nothing of fsage
        if launcher:
            port = self.listening.getsockname()[1]
            program = [sys.executable, "-S", "-c", worker.BOOT, host or os.uname().nodename, str(port)]
            self._launch([*launcher, *program])
        else:
            for _ in range(count):
                child = FORK.Process(target=worker.forked, args=(self.listening, self.key), daemon=True)
                child.start()
                self.children.append(child)

    def meet(self, asked: dict[str, Any]) -> list[Task]:
        """Every task, ready for its first share. Raises Failure when one cannot be had."""
        ready: list[Task] = []
        unnamed: dict[Connection, Task | None] = {}
        deadline = time.monotonic() + PATIENCE_S
        while len(ready) < self.count:
            self._starting(deadline, len(ready))
            for one in wait([self.listening, *unnamed], LOOK_EVERY_S):
                if one is self.listening:
                    if there := self._accepted():
                        unnamed[there] = None
                    continue
                assert isinstance(one, Connection)  # nothing else was asked about
                if task := self._answered(one, unnamed, asked):
                    ready.append(task)
        return ready

    def close(self) -> None:
        """End every task that is still there."""
        self.listening.close()
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

    def _launch(self, argv: list[str]) -> None:
        environment = {**os.environ, worker.KEY: self.key.hex()}
        quiet = subprocess.DEVNULL
        try:
            self.launched = subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=self.said, env=environment)
        except OSError as error:
            raise Failure(f"{argv[0]} does not start on {os.uname().nodename}: {error.strerror}") from error

    def _starting(self, deadline: float, ready: int) -> None:
        ended = [child for child in self.children if child.exitcode is not None]
        if ended or (self.launched and self.launched.poll() is not None):
            raise Failure(f"a task ended before it had begun: {self.last_words() or 'it said nothing'}")
        if time.monotonic() > deadline:
            raise Failure(
                f"{ready} of {self.count} tasks came within {PATIENCE_S:.0f} s: {self.last_words()}; "
                f"all clients must reach {os.uname().nodename} over TCP"
            )

    def _accepted(self) -> Connection | None:
        """A connection from somebody who has the key; None for a stranger, who does not hold us up."""
        accepted, _ = self.listening.accept()
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", HANDSHAKE_S, 0))
        there = Connection(os.dup(accepted.fileno()))
        try:
            deliver_challenge(there, self.key)
            answer_challenge(there, self.key)
        except (AuthenticationError, EOFError, OSError):
            there.close()
            return None
        finally:
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
            accepted.close()
        self.connections.append(there)
        return there

    def _answered(
        self, there: Connection, unnamed: dict[Connection, Task | None], asked: dict[str, Any]
    ) -> Task | None:
        """Answer what a task says before it is ready; the task when it is."""
        try:
            said = there.recv_bytes()
        except (EOFError, OSError):
            raise Failure(f"a task ended before it had begun: {self.last_words() or 'it said nothing'}") from None
        if said == b"code":
            self.code = self.code or packed()
            there.send_bytes(self.code)
        elif unnamed[there] is None:
            named = worker.read(said)
            unnamed[there] = Task(there, named["host"], named["pid"])
            worker.say(there, {"asked": asked, "number": self.connections.index(there)})
        else:
            return unnamed.pop(there)
        return None
