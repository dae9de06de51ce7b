"""What hosts send, read by its types: an observation, a state's evidence, a claim, what a host is and can do.

A host's word is believed about what it measured and nothing else. Each message is bounded in size and depth
(fsage.agent.message), its numbers are finite, its names are no parts of paths, and it is taken only as an answer to
what was asked of that host. Keys beside those typed here are kept as they are: plain JSON within the same bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from fsage.agent import typed
from fsage.agent.message import MIB, NAME, Unacceptable, check, read, shown
from fsage.agent.messages.observation import Observation, StateEvidence
from fsage.agent.target import kinds

T = TypeVar("T")
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


class Store(Message):
    """One store of a claim."""

    mount: Word


class Calibration(Message):
    """What was measured of the empty target."""

    write_mib_s: Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]
    read_mib_s: Annotated[float, Field(gt=0, lt=1e9, allow_inf_nan=False)]
    cell_overhead_s: Number


class Claim(Message):
    """The claim of a target, of which a copy lies in results/ (fsage.agent.claiming.claim)."""

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
    """What a host is and can do (fsage.agent.hosts.probe)."""

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


def read_observation(content: bytes) -> Observation:
    """An observation in its file's bytes. Raises Unacceptable."""
    return _declared(Observation, read(content, OBSERVATION_BYTES))


def saved(key: str, value: Any, target: Mapping[str, Any], request: Mapping[str, Any]) -> bytes:
    """What an answer holds under `key`, to be saved as JSON; raises Unacceptable when it is not what was asked for."""
    check(value)
    if key == "evidence":
        _typed(StoresLayout, _declared(StateEvidence, value)["layout"])
    else:
        models: dict[str, type[Message]] = {"claim": Claim, "probe": Probe}
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


def _declared(kind: type[T], value: Any) -> T:
    try:
        return typed.read(kind, value)
    except Unacceptable as why:
        raise Unacceptable(f"is not as the agent writes it: {why}") from None


def _typed(model: type[BaseModel], value: Any) -> None:
    try:
        model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(shown(str(part))[1:-1] for part in first["loc"])
        raise Unacceptable(
            f"is not as the agent writes it: {place or 'all of it'}: {first['msg']}, got {shown(first['input'])}"
        ) from None
