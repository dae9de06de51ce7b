"""How a task proves that it has the phase's key, and has proof that the coordinator has it; sent to it as text.

The coordinator says a random number, the task another one with an HMAC of both, the coordinator an HMAC of its own.
All are of fixed length, so that nothing that a stranger says is ever taken for a length. This module needs nothing of
fsage: it is what a host runs that has nothing of it yet (`python -c`, fsage.host.netflow.worker).
"""

from __future__ import annotations

import hmac
import os
import socket
import time
from multiprocessing.connection import Connection

KEY = "FSAGE_NETFLOW_KEY"
"""Environment variable that holds the key of the phase, in hexadecimal."""
NUMBER_BYTES = 32
PROOF_BYTES = 32
PATIENCE_S = 30.0
AGAIN_S = 0.2


def proof(key: bytes, who: bytes, numbers: bytes) -> bytes:
    """What only who has the key can say, of both sides' numbers; `who` says it."""
    return hmac.digest(key, who + numbers, "sha256")


def answer(key: bytes, said: bytes) -> bytes | None:
    """What the coordinator answers to its own number, and what a task said to it; None to a stranger."""
    numbers, proven = said[: 2 * NUMBER_BYTES], said[2 * NUMBER_BYTES :]
    known = hmac.compare_digest(proven, proof(key, b"task", numbers))
    return proof(key, b"coordinator", numbers) if known else None


def greet(address: str, port: int) -> Connection:
    """Connect to the coordinator; it drops who is slow, as a busy host may be, so this is tried again for a while."""
    key, late = bytes.fromhex(os.environ[KEY]), time.monotonic() + PATIENCE_S
    while True:
        try:
            return _met(socket.create_connection((address, port)), key)
        except (EOFError, OSError) as error:
            if time.monotonic() > late or isinstance(error, ConnectionRefusedError):  # it has gone
                raise
            time.sleep(AGAIN_S)


def _met(there: socket.socket, key: bytes) -> Connection:
    try:
        there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        numbers = _heard(there, NUMBER_BYTES) + os.urandom(NUMBER_BYTES)
        there.sendall(numbers[NUMBER_BYTES:] + proof(key, b"task", numbers))
        if not hmac.compare_digest(_heard(there, PROOF_BYTES), proof(key, b"coordinator", numbers)):
            raise PermissionError("what answers at the coordinator's address has not got the phase's key")
        return Connection(there.detach())
    finally:
        there.close()  # nothing, once it is a Connection


def _heard(there: socket.socket, size: int) -> bytes:
    said = there.recv(size, socket.MSG_WAITALL)
    if len(said) < size:
        raise EOFError("the coordinator has gone, or dropped us")
    return said
