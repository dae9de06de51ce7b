"""Where tasks on several hosts come in while a phase starts: one TCP port, for whoever proves to have the phase's key.

Strangers are dropped after PATIENCE_S, or as soon as they say something wrong; they wait beside each other, so that
none holds up a task. Of more than there is room for, who has waited longest goes: a task is known within milliseconds,
and one that is dropped comes again (fsage.host.netflow.greeting).
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

from fsage.host.netflow.greeting import NUMBER_BYTES, PROOF_BYTES, answer
from fsage.model.errors import Failure

PATIENCE_S = 1.0
STRANGERS = 64
"""So many may wait to be known beside as many as there are tasks."""
BACKLOG = 1024
ANSWER_BYTES = NUMBER_BYTES + PROOF_BYTES


class _Stranger:
    """Somebody who is not known yet."""

    def __init__(self, there: socket.socket) -> None:
        self.there, self.until, self.said = there, time.monotonic() + PATIENCE_S, b""
        self.number = os.urandom(NUMBER_BYTES)


class Door:
    """A port that is open until `close`. `towards`: a host that tasks come from; None: this one alone."""

    def __init__(self, key: bytes, tasks: int, towards: str | None) -> None:
        self.key, self.most = key, tasks + STRANGERS
        family, self.address = _reached_from(towards)
        self.listening = socket.create_server((self.address, 0), family=family, backlog=BACKLOG)
        self.listening.setblocking(False)
        self.port: int = self.listening.getsockname()[1]
        self.strangers: dict[socket.socket, _Stranger] = {}

    def waits_for(self) -> list[socket.socket]:
        """What `enter` is to be called with when it is ready."""
        return [self.listening, *self.strangers]

    def enter(self, ready: socket.socket) -> Iterator[Connection]:
        """Hear who is there; a connection to one who is a task."""
        if ready is self.listening:
            self._accept()
        elif (stranger := self.strangers.get(ready)) and (known := self._hear(stranger)):
            yield known

    def drop_late(self) -> None:
        """Drop who has not proven anything in time."""
        now = time.monotonic()
        for stranger in [one for one in self.strangers.values() if one.until < now]:
            self._drop(stranger)

    def close(self) -> None:
        """Listen no more."""
        self.listening.close()
        for stranger in list(self.strangers.values()):
            self._drop(stranger)

    def _accept(self) -> None:
        try:
            there, _ = self.listening.accept()
        except OSError:  # it has gone again
            return
        there.setblocking(False)
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stranger = self.strangers[there] = _Stranger(there)
        if len(self.strangers) > self.most:
            self._drop(next(iter(self.strangers.values())))
        with contextlib.suppress(OSError):  # of one who has gone, hearing tells
            there.send(stranger.number)

    def _hear(self, stranger: _Stranger) -> Connection | None:
        try:
            said = stranger.there.recv(ANSWER_BYTES - len(stranger.said))
        except BlockingIOError:
            return None
        except OSError:
            said = b""
        stranger.said += said
        if said and len(stranger.said) < ANSWER_BYTES:
            return None
        ours = answer(self.key, stranger.number + stranger.said) if said else None
        if ours is None:
            self._drop(stranger)
            return None
        del self.strangers[stranger.there]
        stranger.there.setblocking(True)
        with contextlib.suppress(OSError):
            stranger.there.sendall(ours)
        return Connection(stranger.there.detach())

    def _drop(self, stranger: _Stranger) -> None:
        del self.strangers[stranger.there]
        stranger.there.close()


def _reached_from(host: str | None) -> tuple[int, str]:
    """Family and address of this host's at which that host reaches it: no other network can knock."""
    if host is None:
        return socket.AF_INET, "127.0.0.1"
    try:
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
        family, kind, _, _, address = found[0]
        with socket.socket(family, kind) as asked:
            asked.connect(address)  # of a datagram socket: asks the routing table, and sends nothing
            return family, asked.getsockname()[0]
    except OSError as error:
        raise Failure(f"no address of {os.uname().nodename} is known that {host} reaches: {error.strerror}") from error
