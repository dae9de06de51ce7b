"""The state token: what a target says of itself, written and flushed before each change.

The token is one file of fixed size, overwritten in place: so its own writing takes no new block and leaves
the layout alone. A torn write shows as a wrong checksum and counts as no token: the target is then rebuilt.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fsage.host.system import places
from fsage.model import typed
from fsage.model.message import Unacceptable
from fsage.model.structure import Achieved, Notes, Step

SCHEMA = 1
TOKEN_BYTES = 16384
Status = Literal["building", "ready", "measuring"]
BUILDING: Status = "building"
READY: Status = "ready"
MEASURING: Status = "measuring"


@dataclass(frozen=True)
class Token:
    """What a target says of itself. `epoch` counts changes; `instance` is new each time the target is emptied.

    `done`: the steps that were done; of building, `step` is the one under way and `clients` who share it; of
    measuring, `cell`. What follows was seen when the state was ready: see fsage.host.states.fingerprint. `osts`:
    used bytes.
    """

    claim: str
    status: Status
    epoch: int
    instance: str
    emptied_because: str
    target: str = ""
    state: str = ""
    done: tuple[Step, ...] = ()
    step: Step | None = None
    clients: int = 1
    cell: str | None = None
    achieved: tuple[Achieved, ...] = ()
    notes: dict[str, Notes] = field(default_factory=dict)
    fingerprint: str = ""
    digest: str | None = None
    extents: int | None = None
    files: int = 0
    bytes: int = 0
    held_bytes: int = 0
    free_bytes: int = 0
    osts: dict[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """The token as it is written, and as evidence has it."""
        return {"schema": SCHEMA, **{key: typed.to_json(value) for key, value in vars(self).items()}}


def path_of(mount: Path) -> Path:
    """The token's place on the first store."""
    return mount / ".fsage" / "token.json"


def read(mount: Path) -> Token | None:
    """The token, or None where there is none that can be trusted (none, torn, of another version)."""
    try:
        with open(places.file(path_of(mount), os.O_RDONLY)) as file:
            text, _, check = file.read(TOKEN_BYTES + 1).rstrip().rpartition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return _parsed(text) if check == _checksum(text) else None


def write(mount: Path, token: Token) -> Token:
    """Write `token` durably, and return it as it will be read."""
    text = json.dumps(token.to_json(), sort_keys=True)
    payload = f"{text}\n{_checksum(text)}\n".encode()
    if len(payload) > TOKEN_BYTES:
        raise ValueError(f"a token of {len(payload)} bytes; at most {TOKEN_BYTES} fit")
    path = path_of(mount)
    with places.opened(path.parent, places.PRIVATE) as above:
        new = path.name not in os.listdir(above)
        fd = places.file_in(above, path, os.O_WRONLY | os.O_CREAT)
        try:
            os.pwrite(fd, payload.ljust(TOKEN_BYTES, b" "), 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        if new:
            os.fsync(above)
    return _parsed(text) or token


def changed(mount: Path, token: Token, **fields: Any) -> Token:
    """The token with `fields` replaced and the epoch counted up, written before the change that it announces."""
    return write(mount, replace(token, epoch=token.epoch + 1, **fields))


def _parsed(text: str) -> Token | None:
    """A token of this version; None for any other."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.pop("schema", None) != SCHEMA:
        return None
    with contextlib.suppress(Unacceptable):
        return typed.read(Token, found)
    return None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
