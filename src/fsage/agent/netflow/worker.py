"""A task: connected to the coordinator, it does what it is given, and ends when the connection does.

It says {"host", "pid"} and is answered by what is asked and its number; says {"ready": true}; every {"share"} is
answered by {"done": true}, {"end": true} by what it did: `first_s` and `last_s`, the seconds of its first and last I/O
since its first share came. What failed is {"failed": sentence}.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from multiprocessing.connection import Client, Connection
from typing import Any

from fsage.agent.errors import Failure
from fsage.agent.netflow.work import PHASES, Work

KEY = "FSAGE_NETFLOW_KEY"
"""Environment variable that holds the key of the connection, in hexadecimal."""
BOOT = (
    "import os, sys; from multiprocessing.connection import Client; "
    f"there = Client((sys.argv[1], int(sys.argv[2])), authkey=bytes.fromhex(os.environ['{KEY}'])); "
    "there.send_bytes(b'code'); fd = os.memfd_create('fsage'); "
    "open(fd, 'wb', closefd=False).write(there.recv_bytes()); "
    "sys.path.insert(0, f'/proc/self/fd/{fd}'); from fsage.agent.netflow import worker; worker.serve(there)"
)
"""A program for a host that has nothing of fsage; its arguments are the coordinator's host and port."""
LOOK_EVERY_S = 0.2


class Gone(Exception):
    """The coordinator has gone."""


def forked(listening: socket.socket, key: bytes) -> None:
    """Be a task on the coordinator's own host."""
    address = listening.getsockname()
    listening.close()  # else it would outlive the coordinator, and the others wait there for ever
    with contextlib.suppress(EOFError, OSError):  # it has gone
        serve(Client(address, authkey=key))


def serve(there: Connection) -> None:
    """Do what the coordinator says until it has enough, or has gone."""
    try:
        say(there, {"host": os.uname().nodename, "pid": os.getpid()})
        given = hear(there)
        work = PHASES[given["asked"]["phase"]](given["asked"], given["number"], _attending(there))
        say(there, {"ready": True})
        try:
            say(there, _done(there, work))
        except Failure as why:
            say(there, {"failed": f"{why} (host {os.uname().nodename})"})
        hear(there)  # which never comes: the coordinator closes when it has all
    except (Gone, EOFError, ConnectionError):
        return


def say(there: Connection, what: dict[str, Any]) -> None:
    """Send one message."""
    there.send_bytes(json.dumps(what).encode())


def read(message: bytes) -> dict[str, Any]:
    """What a message says."""
    return json.loads(message)


def hear(there: Connection) -> dict[str, Any]:
    """Receive one message. Raises EOFError."""
    return read(there.recv_bytes())


def _done(there: Connection, work: Work) -> dict[str, Any]:
    came = there.recv_bytes()
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

    def attend() -> None:
        nonlocal looked
        if (now := time.monotonic()) > looked + LOOK_EVERY_S:
            looked = now
            if select.select([there], [], [], 0)[0]:
                raise Gone

    return attend
