"""The state token: what a target says of itself, written and flushed before each change.

The token is one file of fixed size, overwritten in place: so its own writing takes no new block and leaves
the layout alone. A torn write shows as a wrong checksum and counts as no token: the target is then rebuilt.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from fsage.agent import places

SCHEMA = 1
TOKEN_BYTES = 16384
BUILDING, READY, MEASURING = "building", "ready", "measuring"


def path_of(mount: Path) -> Path:
    """The token's place on the first store."""
    return mount / ".fsage" / "token.json"


def read(mount: Path) -> dict | None:
    """The token, or None where there is none that can be trusted (none, torn, of another version)."""
    try:
        with open(places.file(path_of(mount), os.O_RDONLY)) as file:
            text, _, check = file.read(TOKEN_BYTES + 1).rstrip().rpartition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    token = json.loads(text) if check == _checksum(text) else None
    return token if token and token.get("schema") == SCHEMA else None


def write(mount: Path, token: dict) -> dict:
    """Write `token` durably and return it."""
    token = {**token, "schema": SCHEMA}
    text = json.dumps(token, sort_keys=True)
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
    return token


def changed(mount: Path, token: dict, **fields: object) -> dict:
    """The token with `fields` replaced and the epoch counted up, written before the change that it announces."""
    return write(mount, {**token, "epoch": token["epoch"] + 1, **fields})


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
