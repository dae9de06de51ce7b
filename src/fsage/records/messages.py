"""What hosts send, read by its types: an observation, a state's evidence, a claim, what a host is and can do.

A host's word is believed about what it measured and nothing else. Each message is bounded in size and depth
(fsage.model.message), its numbers are finite, its names are no parts of paths, and it is taken only as an answer to
the request to that host. Keys beside those declared are kept as they are: plain JSON within the same bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from fsage.model import MIB, kinds, typed
from fsage.model.claim import WHOLE, Claim
from fsage.model.hosts import Probe
from fsage.model.message import Unacceptable, check, read, shown
from fsage.model.observation import Observation, StateEvidence

T = TypeVar("T")
EVIDENCE_BYTES = 256 * MIB  # of a target with many stores
OF_THE_LAUNCHER = {"requested_attempt"}
"""Keys of observations that it adds (fsage.records.record)."""
OBSERVATION_BYTES = 64 * MIB  # all raw output of a cell and its trace


def read_observation(content: bytes) -> Observation:
    """An observation in its file's bytes. Raises Unacceptable."""
    observation = _declared(Observation, read(content, OBSERVATION_BYTES))
    foreign = sorted(OF_THE_LAUNCHER & observation.keys())
    if foreign:
        raise Unacceptable(f"has {foreign[0]}, which the launcher alone writes")
    return observation


def read_evidence(content: bytes) -> StateEvidence:
    """The evidence of a state in its file's bytes. Raises Unacceptable."""
    return _declared(StateEvidence, read(content, EVIDENCE_BYTES))


def saved(key: str, value: Any, target: Mapping[str, object], request: Mapping[str, object]) -> bytes:
    """What an answer holds under `key`, to be saved as JSON; raises Unacceptable when it is not what was requested."""
    check(value)
    if key == "evidence":
        _declared(StateEvidence, value)
    elif key == "claim":
        check_claim(value)
    else:
        _declared({"probe": Probe}[key], value)
    requested = {"claim": {"target": target.get("name")}, "evidence": {"study": request.get("study")}}.get(key, {})
    if key == "evidence":
        requested["state"] = request.get("state")
    same_as(value, requested)
    if key == "evidence":
        same_as(value["token"], {"claim": request["claim"]} if request.get("claim") else {})
        same_as(value, {"steps": request.get("steps")})
    return json.dumps(value, indent=1).encode() + b"\n"


def check_claim(value: object) -> None:
    """Raise Unacceptable for what is no claim of a target that is claimed, as this release writes it."""
    _whole(_declared(Claim, value))


def _whole(claim: Claim) -> None:
    """Raise Unacceptable for a claim that is only begun, or of no kind of target."""
    lacking = [key for key in WHOLE if key not in claim]
    if lacking:
        raise Unacceptable(f"is not as the agent writes it: {lacking[0]} is missing")
    if claim["kind"] not in kinds.names():
        raise Unacceptable(f"is not as the agent writes it: kind is {claim['kind']}: one of {', '.join(kinds.names())}")


def same_as(value: Mapping[str, object], requested: Mapping[str, object]) -> None:
    """Raise Unacceptable where `value` differs from the request."""
    for key, wanted in requested.items():
        if json.dumps(value.get(key), sort_keys=True) != json.dumps(wanted, sort_keys=True):  # 1 is not true
            raise Unacceptable(f"has {shown(value.get(key))} as {key}, and {shown(wanted)} was requested")


def _declared(kind: type[T], value: object) -> T:
    try:
        return typed.read(kind, value)
    except Unacceptable as why:
        raise Unacceptable(f"is not as the agent writes it: {why}") from None
