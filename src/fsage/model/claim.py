"""What is kept of a claimed target: the claim (claim.json), the list of its images (images.json), the state token.

Claim and images are in its home, and written by fsage alone; fsage.host.targets.claims says when they are believed.
The token is on the target itself, and says which state it is in.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from fsage.base import Json, typed
from fsage.base.message import Unacceptable
from fsage.base.typed import Check, Name, Positive, Word, between
from fsage.model.structure import Achieved, Notes, Step
from fsage.model.target import Launcher, Limits

Rate = Annotated[float, Check(lambda value: 0 < value < 1e9, "a number above 0")]
Tasks = Annotated[int, between(1, 10**6, "a whole number")]
WHOLE = ("capacity_bytes", "device_model", "amount_mib", "calibration")
"""Keys that a claim has once the target is claimed."""


class ImageId(TypedDict):
    """What tells an image file from every other on its host; `bytes`: its size."""

    dev: int
    ino: int
    bytes: int


class Image(ImageId):
    """An image file, or what a device model offers in its place."""

    image: str  # its path


class Here(TypedDict, total=False):
    """What names a host in its notes."""

    host: Word
    machine: Word  # a digest of its machine-id(5), where it has one


class Made(TypedDict, total=False):
    """An image as images.json has it; planned, or written, and only then what tells it is known."""

    image: str  # its path
    status: str
    bytes: int
    dev: int
    ino: int
    nocow: bool  # its file system was told to leave it where it is
    uuid: str  # of the file system in it, where sparse images lie there


class _Images(Here):
    schema: int
    target: str
    declared: dict[str, float]
    made_directory: bool  # whether the directory of the images was made for them
    images: list[Made]


class Images(_Images, total=False):
    """images.json: the images that were made for a target, and as what it was declared."""

    below: Made  # what sparse images lie in


class _Mounted(TypedDict):
    mount: Word


class ClaimedStore(_Mounted, total=False):
    """One store of a claimed target: where it is mounted, and how it is identified."""

    filesystem: str | None  # None: a directory, of whose file system nothing is known
    uuids: list[str]  # the file system's; a second one is that of the mkfs which is under way
    image: str  # of kind loop, with image_id and hash_seed
    image_id: ImageId
    hash_seed: str
    directory: str  # of the other kinds, with directory_id
    directory_id: Json


class _LustreClaim(TypedDict):
    declared: Json
    version: str
    osts: dict[str, dict[str, float]]


class LustreClaim(_LustreClaim, total=False):
    """What a claim notes of Lustre: as what it was declared, its version, and each OST's fullness then.

    `device_bytes`: of the one OST that a layout can be copied onto, where there is such. `usable`: the numbers of the
    OSTs that files may lie on, where a pool or a list says so. `budget`: what the capacity is the least of, in bytes.
    """

    device_bytes: Positive
    usable: list[int]
    budget: dict[str, int]


class _Calibration(TypedDict):
    write_mib_s: Rate
    read_mib_s: Rate
    cell_overhead_s: Annotated[float, between(-1e9, 1e9, "a number")]


class Calibration(_Calibration, total=False):
    """How fast the empty target is, and below it the device without all else, where that was measured."""

    backing_write_mib_s: float | None
    backing_read_mib_s: float | None
    commands: list[object]


REDUCED = "reduced from"
"""What the source of an amount begins with, where a state has no room for the claim's."""


class _Begun(Here):
    """What a claim has from its beginning."""

    schema: int
    target: Name
    kind: Name
    id: Name
    status: Literal["claiming", "claimed", "releasing"]
    created: Word
    kernel: Word
    stores: Annotated[list[ClaimedStore], Check(bool, "at least one store")]
    tools: dict[Name, Word | None]
    containers: Word | None
    images: dict[Word, Word]
    tasks: Tasks  # on each client
    hosts: list[Word]  # the clients, by name
    launcher: Launcher
    launcher_options: list[Word]
    declared: Json  # fsage.model.declaration
    filesystem_state_known: bool


class Claim(_Begun, total=False):
    """claim.json: that a target is fsage's, how it is identified, and what was measured of it while it was empty."""

    uid: int  # who runs what is measured
    capacity_bytes: Positive
    statfs_empty: list[dict[str, int]]
    free_inodes_empty: int
    device_model: Json
    amount_mib: Positive  # what a task moves
    amount_source: str
    passes: int
    calibration: Calibration
    lustre: LustreClaim
    edits: list[Json]
    made: Json  # of a directory's mark that was found without its claim: what a release removes with it
    limits: Limits  # of root, on the host that claimed it (fsage.model.limits)


def utc_now() -> str:
    """This moment, ISO 8601, UTC."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"


TOKEN_SCHEMA = 1
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

    def to_json(self) -> Json:
        """The token as it is written, and as evidence has it."""
        return {"schema": TOKEN_SCHEMA, **{key: typed.to_json(value) for key, value in vars(self).items()}}


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
    if not isinstance(content, dict) or content.pop("schema", None) != TOKEN_SCHEMA:
        return None
    try:
        return typed.read(Token, content)
    except Unacceptable:
        return None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
