"""What hosts send, one typed model a message: an observation, a claim, a state's evidence, what a host is and can do.

A host's word is believed about what it measured and nothing else. Each message is bounded in size and depth
(fsage.agent.message), its numbers are finite, its names are no parts of paths, and it is taken only as an answer to
what was asked of that host. Keys beside those typed here are kept as they are: plain JSON within the same bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fsage.agent import kinds
from fsage.agent.message import MIB, NAME, Unacceptable, check, read, shown

OBSERVATION_BYTES = 64 * MIB  # all raw output of a cell and its trace
LARGEST = 2**63 - 1  # bytes of anything


def _kind(name: str) -> str:
    if name not in kinds.names():
        raise ValueError(f"is none of {', '.join(kinds.names())}")
    return name


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has control characters")
    return text


Name = Annotated[str, Field(pattern=rf"^{NAME}$")]
Word = Annotated[str, Field(max_length=1000), AfterValidator(_printable)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Seconds = Annotated[float, Field(ge=0, lt=1e9, allow_inf_nan=False)]
Number = Annotated[float, Field(gt=-1e300, lt=1e300, allow_inf_nan=False)]
Json = dict[str, Any]


class Message(BaseModel):
    """Nothing is converted; what is not typed is kept."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


class Check(Message):
    """What a cell's check saw of its state."""

    agreed: bool
    epoch: Count
    rebuilt: bool
    seconds: Seconds
    instance: Word | None = None


class Generation(Message):
    """What a generation of files has come to."""

    files: Count = 0
    deleted_files: Count = 0
    capacity_percent_achieved: Number = 0.0
    deleted_share_bytes: Number = 0.0


class Layout(Message):
    """In which layout it was taken (fsage.agent.state.layout_record)."""

    digest: Word | None
    filler_files: Count
    filler_extents: Count | None
    capacity_bytes: Annotated[int, Field(gt=0, le=LARGEST)]
    used_bytes: Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
    free_bytes: Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
    state_known: bool
    generations: list[Generation]
    steps: list[Json]
    notes: dict[Name, Json]


class Model(Message):
    """A device model."""

    label: Word


class Conditions(Message):
    """Under what it was taken."""

    device_model: Model | None
    filesystem: Word | None
    mount_options: list[Word]
    allocator_reset: Word | None
    tunables: dict[Name, Json]
    tools: dict[Name, Word | None]
    images: dict[Word, Word] | None = None  # path -> SHA-256
    amount_mib: Number | None


class Command(Message):
    """What one command gave."""

    argv: list[str]
    rc: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    stdout: str = ""
    stderr: str = ""
    wall_s: Seconds = 0.0
    line_s: list[Seconds] = []


class Extents(Message):
    """How the files that a phase made lie."""

    files: Count
    extents: Count
    bytes: Count
    mean_position: Number | None = None
    position_sd: Number | None = None
    mean_extent_bytes: Number | None = None
    layout_score: Number | None = None


class Phase(Command):
    """One phase of a cell."""

    name: Name
    cached_pages: Count | None = None
    cache_drop_s: Seconds
    beside: list[Command] = []
    extents: Extents | None = None
    files: dict[Name, str] = {}


class Observation(Message):
    """What was seen of one cell (fsage.agent.cells.visit)."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    id: Name
    study: Name
    target: Name
    claim: Name
    state: Name
    nominal: Json
    cell: Name
    kind: Name
    attempt: Annotated[int, Field(ge=1, le=10**6)]
    order: Count
    params: Json
    run: Name | None
    began: Word
    ended: Word
    host: Word
    hosts: list[Word]
    kernel: Word
    status: Literal["done", "failed", "unsupported"]
    why: str | None
    check: Check
    layout: Layout
    conditions: Conditions
    phases: list[Phase]
    seconds: dict[Name, Seconds] = {}


class Store(Message):
    """One store of a claim."""

    mount: Word


class Calibration(Message):
    """What was measured of the empty target."""

    write_mib_s: Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]
    read_mib_s: Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]
    cell_overhead_s: Number


class Claim(Message):
    """The claim of a target, of which a copy lies in results/ (fsage.agent.claim)."""

    id: Name
    target: Name
    kind: Annotated[str, AfterValidator(_kind)]
    host: Word
    hosts: list[Word]
    stores: Annotated[list[Store], Field(min_length=1)]
    capacity_bytes: Annotated[int, Field(gt=0, le=LARGEST)]
    amount_mib: Annotated[int, Field(gt=0, le=LARGEST)]
    tasks: Annotated[int, Field(gt=0, le=10**6)]
    launcher: Literal["openmpi", "mpich", "srun"]
    launcher_options: list[Word]
    tools: dict[Name, Word | None]
    calibration: Calibration
    device_model: Json


class SizeClass(BaseModel):
    """Free extents from `from_bytes` to below twice that."""

    from_bytes: int
    extents: int
    bytes: int


class FreeExtents(BaseModel):
    """All free extents of a store, and how many there are of each size."""

    count: int
    largest_bytes: int
    mean_bytes: float | None
    histogram: list[SizeClass]


class Bitmap(BaseModel):
    """Share of each bin's bytes that is free, from the first byte of the device."""

    bin_bytes: int
    free_share: list[float] = Field(min_length=1)


class Bucket(BaseModel):
    """How many groups have such a share of free blocks."""

    label: str
    groups: int


class Groups(BaseModel):
    """Block groups or allocation groups by free share, each in one bucket."""

    kind: str
    count: int
    buckets: list[Bucket]


class FileLayouts(BaseModel):
    """How a set of files lies; extents_per_file: number of extents -> files."""

    files: int
    bytes: int | None
    extents: int
    mean_extent_bytes: float | None = None
    layout_score: float | None = None
    extents_per_file: dict[int, int] = {}


class StoreLayout(BaseModel):
    """What is known of one store; None where `absent` has the reason."""

    store: int
    filesystem: str | None = None
    source: dict[str, str] = {}
    device_bytes: int | None = None
    fullness_percent: float | None = None
    free_bytes: int | None = None
    free_extents: FreeExtents | None = None
    bitmap: Bitmap | None = None
    aligned_free_share: dict[int, float | None] | None = None
    groups: Groups | None = None
    files: dict[str, FileLayouts] | None = None
    absent: dict[str, str] = {}


class StoresLayout(BaseModel):
    """The key `layout` of a state's evidence (fsage.agent.evidence)."""

    schema_version: Literal[1] = Field(alias="schema")
    stores: list[StoreLayout]


class Token(Message):
    """The state token, as the evidence has it."""

    instance: Word
    claim: Name


class StateEvidence(Layout):
    """The evidence of a state (fsage.agent.state.evidence)."""

    study: Name
    state: Name
    token: Token
    layout: StoresLayout


class KnownClaim(Message):
    """What a host tells of the claim that it has."""

    id: Name
    created: Word
    status: Word


class Place(Message):
    """A directory that could hold images."""

    directory: Word
    free_gib: Number


class Probe(Message):
    """What a host is and can do (fsage.agent.probe)."""

    able: bool
    missing: list[Word]
    root: bool
    host: Word
    kernel: Word
    memory_bytes: Count
    network_mbit_s: list[Count]
    time: Number
    tools: dict[Name, Word | None]
    places: list[Place]
    claim: KnownClaim | None


def read_observation(content: bytes) -> dict[str, Any]:
    """An observation in its file's bytes. Raises Unacceptable."""
    found = read(content, OBSERVATION_BYTES)
    _typed(Observation, found)
    return found


def saved(key: str, value: Any, target: Mapping[str, Any], request: Mapping[str, Any]) -> bytes:
    """What an answer holds under `key`, to be saved as JSON; raises Unacceptable when it is not what was asked for."""
    models: dict[str, type[Message]] = {"claim": Claim, "evidence": StateEvidence, "probe": Probe}
    check(value)
    _typed(models[key], value)
    asked = {"claim": {"target": target.get("name")}, "evidence": {"study": request.get("study")}}.get(key, {})
    if key == "evidence":
        asked["state"] = request.get("state")
    same_as(value, asked)
    if key == "evidence":
        same_as(value["token"], {"claim": request["claim"]} if request.get("claim") else {})
        same_as(value, {"steps": request.get("steps")})
    return json.dumps(value, indent=1).encode() + b"\n"


def same_as(value: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise Unacceptable where `value` has something else than was asked for."""
    for key, wanted in asked.items():
        if json.dumps(value.get(key), sort_keys=True) != json.dumps(wanted, sort_keys=True):  # 1 is not true
            raise Unacceptable(f"has {shown(value.get(key))} as {key}, and {shown(wanted)} was asked for")


def _typed(model: type[Message], value: Any) -> None:
    try:
        model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(shown(str(part))[1:-1] for part in first["loc"])
        raise Unacceptable(
            f"is not as the agent writes it: {place or 'all of it'}: {first['msg']}, got {shown(first['input'])}"
        ) from None
