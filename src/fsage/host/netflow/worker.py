"""A task: connected to the coordinator, it does what it is given, and ends when the connection does.

It says {"host", "pid"} and is answered by what is asked and its number; says {"ready": true}; every {"share"} is
answered by {"done": true}, {"end": true} by what it did: `first_s` and `last_s`, the seconds of its first and last I/O
since its first share came. What failed is {"failed": sentence}.
"""

from __future__ import annotations

import contextlib
import json
import os
import pkgutil
import select
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from fsage.host.netflow.assignment import Assignment
from fsage.host.netflow.work import PHASES, Work
from fsage.model import typed
from fsage.model.errors import Failure

BOOT = """
import sys
there = greet(sys.argv[1], int(sys.argv[2]))
there.send_bytes(b"code")
fd = os.memfd_create("fsage")
open(fd, "wb", closefd=False).write(there.recv_bytes())
sys.path.insert(0, f"/proc/self/fd/{fd}")
from fsage.host.netflow import worker
worker.serve(there)
"""
MOST_SAID_BYTES = 1 << 16
"""What a task says is no longer than that."""
MOST_TOLD_BYTES = 1 << 30
"""What it is told: a share may have many index entries."""
LOOK_EVERY_S = 0.2


class Gone(Exception):
    """The coordinator has gone."""


def program() -> str:
    """A program for a host that has nothing of fsage; its arguments are the coordinator's address and port.

    The key is not in it: everybody sees a command line, and only its user sees a process' environment.
    """
    greeting = pkgutil.get_data("fsage.host.netflow", "greeting.py")
    assert greeting  # a module beside this one
    return greeting.decode() + BOOT


def forked(there: Connection, coordinators: Sequence[Connection]) -> None:
    """Be a task on the coordinator's own host."""
    for one in coordinators:
        one.close()  # else the connections would outlive the coordinator, and the tasks wait there for ever
    with contextlib.suppress(EOFError, OSError):  # it has gone
        serve(there)


def serve(there: Connection) -> None:
    """Do what the coordinator says until it has enough, or has gone."""
    try:
        say(there, {"host": os.uname().nodename, "pid": os.getpid()})
        given = hear(there)
        asked = typed.read(Assignment, given["asked"])
        work = PHASES[asked.phase](asked, given["number"], _attending(there))
        say(there, {"ready": True})
        try:
            say(there, _done(there, work))
        except Failure as why:
            say(there, {"failed": f"{why} (host {os.uname().nodename})"})
        hear(there)  # which never comes: the coordinator closes when it has all
    except (Gone, EOFError, ConnectionError):
        return


def say(there: Connection, what: dict[str, Any]) -> None:
    """Send one message. Raises Failure where it is too long."""
    if len(message := json.dumps(what).encode()) > MOST_TOLD_BYTES:
        raise Failure(
            f"a task's share takes {len(message)} bytes to tell, at most {MOST_TOLD_BYTES} are allowed: use more "
            "tasks, fewer models_read or distribution asynchronous"
        )
    there.send_bytes(message)


def read(message: bytes) -> dict[str, Any]:
    """What a message says."""
    return json.loads(message)


def hear(there: Connection, most_bytes: int = MOST_TOLD_BYTES) -> dict[str, Any]:
    """Receive one message. Raises EOFError, and OSError for one that is longer."""
    return read(there.recv_bytes(most_bytes))


def _done(there: Connection, work: Work) -> dict[str, Any]:
    came = there.recv_bytes(MOST_TOLD_BYTES)
    zero, shares, given = time.monotonic(), 0, read(came)
    while "share" in given:
        work.do(given["share"])
        shares += 1
        say(there, {"done": True})
        given = hear(there)
    span = {"first_s": work.file.first_s - zero, "last_s": work.file.last_s - zero}
    return {**work.end(), **span, "shares": shares}


def _attending(there: Connection) -> Any:
    """What raises Gone once the coordinator has; while a task is at work nobody tells it anything, so it is an end."""
    looked = time.monotonic()

    def check_alive() -> None:
        nonlocal looked
        if (now := time.monotonic()) > looked + LOOK_EVERY_S:
            looked = now
            if select.select([there], [], [], 0)[0]:
                raise Gone

    return check_alive
