"""A program that listens on a port while cells are measured, as `fio --server` does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time

from fsage.agent.errors import Failure

PATIENCE_S = 10.0
LOOK_EVERY_S = 0.01


class Service:
    """A listening program; `{"argv": [str], "port": int}` says which."""

    def __init__(self, wanted: dict) -> None:
        self.wanted = wanted
        if listens(wanted["port"]):
            raise Failure(f"port {wanted['port']} is taken on {socket.gethostname()}: end what listens there")
        quiet = subprocess.DEVNULL
        try:
            self.process = subprocess.Popen(
                wanted["argv"], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
            )
        except OSError as error:
            raise Failure(f"{wanted['argv'][0]} does not start on {socket.gethostname()}: {error.strerror}") from error
        deadline = time.monotonic() + PATIENCE_S
        while not listens(wanted["port"]):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise Failure(f"`{' '.join(wanted['argv'])}` does not listen on {socket.gethostname()}")
            time.sleep(LOOK_EVERY_S)

    def end(self) -> None:
        """Kill it, with its children: it has nothing to finish."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def serving(current: Service | None, wanted: dict) -> Service:
    """`current`, when it is what is wanted and still runs; else it is ended, and what is wanted is started."""
    if current and current.wanted == wanted and current.process.poll() is None:
        return current
    if current:
        current.end()
    return Service(wanted)


def listens(port: int) -> bool:
    """Whether anything listens on a TCP port of this host (/proc/net/tcp, state 0A); nobody is disturbed by asking."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                rows = [line.split() for line in lines]
        except FileNotFoundError:  # no IPv6 here
            continue
        if any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port for row in rows[1:]):
            return True
    return False
