"""The state token: what a target says of itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field
from typing import Literal

from fsage.model import typed
from fsage.model.message import Unacceptable
from fsage.model.structure import Achieved, Notes, Step

SCHEMA = 1
Status = Literal["building", "ready", "measuring"]
BUILDING: Status = "building"
READY: Status = "ready"
MEASURING: Status = "measuring"


@dataclass(frozen=True)
class Token:
    """What a target says of itself. `epoch` counts changes; `instance` is new each time the target is emptied.

    `done`: the steps that were done; of building, `step` is the one under way and `clients` who share it; of
    measuring, `cell`. What follows was seen when the state was ready: see fsage.host.states.inspection. `osts`:
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

    def to_json(self) -> dict[str, object]:
        """The token as it is written, and as evidence has it."""
        return {"schema": SCHEMA, **{key: typed.to_json(value) for key, value in vars(self).items()}}


def text_of(token: Token) -> str:
    """The token and its checksum, as they are written."""
    text = json.dumps(token.to_json(), sort_keys=True)
    return f"{text}\n{_checksum(text)}\n"


def parsed(written: str) -> Token | None:
    """The token in what was written; None for what is torn, and for a token of any other version."""
    text, _, check = written.rstrip().rpartition("\n")
    if check != _checksum(text):
        return None
    content = json.loads(text)
    if not isinstance(content, dict) or content.pop("schema", None) != SCHEMA:
        return None
    with contextlib.suppress(Unacceptable):
        return typed.read(Token, content)
    return None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
