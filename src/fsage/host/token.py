"""The state token on a target: written and flushed before each change (fsage.model.claim).

The token is one file of fixed size, overwritten in place, so that writing it takes no new block and leaves the layout
as it is. A torn write shows as a wrong checksum and counts as no token: the target is then rebuilt.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from fsage.host.system import places
from fsage.model.claim import Token, parsed, text_of

TOKEN_BYTES = 16384


def path_of(mount: Path) -> Path:
    """The token's place on the first store."""
    return mount / ".fsage" / "token.json"


def read(mount: Path) -> Token | None:
    """The token, or None where it is missing, torn, or of another version."""
    try:
        with open(places.file(path_of(mount), os.O_RDONLY)) as file:
            return parsed(file.read(TOKEN_BYTES + 1))
    except (OSError, UnicodeDecodeError):
        return None


def write(mount: Path, token: Token) -> Token:
    """Write `token` durably; the token as it will be read."""
    text = text_of(token)
    payload = text.encode()
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
    return parsed(text) or token


def changed(mount: Path, token: Token, **fields: Any) -> Token:
    """The token with `fields` replaced and the epoch counted up, written before the change that it announces."""
    return write(mount, replace(token, epoch=token.epoch + 1, **fields))
