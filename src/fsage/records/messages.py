"""What hosts send, read by its types: an observation, a state's evidence, a claim, what a host is and can do.

A host's word is believed about what it measured and nothing else. Each message is bounded in size and depth
(fsage.model.message), its numbers are finite, its names are no parts of paths, and it is taken only as an answer to
what was asked of that host. All but a layout is declared where hosts write it, and only read here; keys beside those
declared are kept as they are: plain JSON within the same bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from fsage.model import MIB, kinds, typed
from fsage.model.claim import WHOLE, Claim
from fsage.model.hosts import Probe
from fsage.model.message import Unacceptable, check, read, shown
from fsage.model.observation import Observation, StateEvidence

T = TypeVar("T")
OBSERVATION_BYTES = 64 * MIB  # all raw output of a cell and its trace


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
    """The key `layout` of a state's evidence (fsage.host.evidence)."""

    schema_version: Literal[1] = Field(alias="schema")
    stores: list[StoreLayout]


def read_observation(content: bytes) -> Observation:
    """An observation in its file's bytes. Raises Unacceptable."""
    return _declared(Observation, read(content, OBSERVATION_BYTES))


def saved(key: str, value: Any, target: Mapping[str, Any], request: Mapping[str, Any]) -> bytes:
    """What an answer holds under `key`, to be saved as JSON; raises Unacceptable when it is not what was asked for."""
    check(value)
    if key == "evidence":
        _typed(StoresLayout, _declared(StateEvidence, value)["layout"])
    elif key == "claim":
        check_claim(value)
    else:
        _declared({"probe": Probe}[key], value)
    asked = {"claim": {"target": target.get("name")}, "evidence": {"study": request.get("study")}}.get(key, {})
    if key == "evidence":
        asked["state"] = request.get("state")
    same_as(value, asked)
    if key == "evidence":
        same_as(value["token"], {"claim": request["claim"]} if request.get("claim") else {})
        same_as(value, {"steps": request.get("steps")})
    return json.dumps(value, indent=1).encode() + b"\n"


def check_claim(value: Any) -> None:
    """Raise Unacceptable for what is no claim of a target that is claimed, as this release writes it."""
    _whole(_declared(Claim, value))


def _whole(claim: Claim) -> None:
    """Raise Unacceptable for a claim that is only begun, or of no kind of target."""
    if lacking := [key for key in WHOLE if key not in claim]:
        raise Unacceptable(f"is not as the agent writes it: {lacking[0]} is missing")
    if claim["kind"] not in kinds.names():
        raise Unacceptable(f"is not as the agent writes it: kind is {claim['kind']}: one of {', '.join(kinds.names())}")


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
