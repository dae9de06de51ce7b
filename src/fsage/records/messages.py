"""What hosts send, read once: by type, size and identity.

It is an observation, a state's evidence, a claim, or what a host is and can do. fsage runs code on these hosts, so
their word is believed. What has another type, or answers no request to this target, is refused in a sentence. Keys
beside those declared are kept as they are. Names are no parts of paths.

Requests to a target are noted in its results. A note is kept for ever: what a lost run left on its host is taken
whenever it comes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from fsage.base import MIB, Json, JsonView, typed
from fsage.base.message import Unacceptable, read, shown
from fsage.model import device, kinds
from fsage.model.claim import WHOLE, Claim
from fsage.model.hosts import Probe
from fsage.model.observation import Observation, StateEvidence
from fsage.plan import results
from fsage.plan.results import Results

T = TypeVar("T")
EVIDENCE_BYTES = 256 * MIB  # of a target with many stores
OF_THE_LAUNCHER = {"requested_attempt"}
"""Keys of observations that it adds (fsage.records)."""
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


def saved(key: str, value: Any, target: JsonView, request: JsonView) -> bytes:
    """What an answer holds under `key`, to be saved as JSON. Raises Unacceptable when it is not what was requested."""
    if key == "evidence":
        evidence = _declared(StateEvidence, value)
        same_as(evidence, {"study": request.get("study"), "state": request.get("state")})
        same_as(evidence["token"], {"claim": request.get("claim") or evidence["token"]["claim"]})
    elif key == "claim":
        check_claim(value)
        same_as(value, {"target": target.get("name")})
    else:
        _declared(Probe, value)
    return results.encoded(value)


def check_claim(value: object) -> None:
    """Raise Unacceptable for what is no claim of a target that is claimed, as this release writes it."""
    claim = _declared(Claim, value)
    lacking = [key for key in WHOLE if key not in claim]
    if lacking:
        raise Unacceptable(f"is not as the agent writes it: {lacking[0]} is missing")
    if claim["kind"] not in kinds.names():
        raise Unacceptable(f"is not as the agent writes it: kind is {claim['kind']}: one of {', '.join(kinds.names())}")
    for key in ("kind", "of"):
        model = claim["device_model"].get(key, device.USUAL)
        if model not in list(device.kinds()):  # it may be a list, which no dictionary takes
            known = ", ".join(device.kinds())
            raise Unacceptable(f"is not as the agent writes it: device_model.{key} is {shown(model)}: one of {known}")


def same_as(value: Mapping[str, object], requested: Mapping[str, object]) -> None:
    """Raise Unacceptable where `value` differs from the request."""
    for key, wanted in requested.items():
        if value.get(key) != wanted:
            raise Unacceptable(f"has {shown(value.get(key))} as {key}, and {shown(wanted)} was requested")


def _declared(kind: type[T], value: object) -> T:
    try:
        return typed.read(kind, value)
    except Unacceptable as why:
        raise Unacceptable(f"is not as the agent writes it: {why}") from None


REPEATED = ("cell", "claim", "attempt", "kind", "order", "params", "nominal")


def note_request(where: Results, request: JsonView) -> None:
    """Note the cells of a request, before it goes to a host."""
    path = where.requested(request["state"])
    noted = results.read(path) or []
    known = set(map(_text, noted))
    notes = [_note({**request, **cell, "cell": cell["name"]}, request["steps"]) for cell in request["cells"]]
    new = [note for note in notes if _text(note) not in known]
    if new:
        results.write(path, [*noted, *new])


def _note(block: JsonView, steps: object) -> Json:
    """What an observation repeats of its request."""
    return {**{key: block[key] for key in REPEATED}, "steps": steps}


class Requested:
    """The requests to a target: each note is read once, however many answers there are."""

    def __init__(self, root: Path, target: str) -> None:
        self.root = root
        self.target = target
        self._notes: dict[Path, set[str]] = {}

    def match(self, observation: JsonView) -> None:
        """Raise Unacceptable when a typed observation answers no request to this target.

        Its study and state are names, so the note lies below the results, whatever they are.
        """
        same_as(observation, {"target": self.target})
        path = Results(self.root, self.target, observation["study"]).requested(observation["state"])
        if path not in self._notes:
            self._notes[path] = set(map(_text, results.read(path) or []))
        if _text(_note(observation, observation["layout"]["steps"])) not in self._notes[path]:
            named = ("study", "state", "cell", "attempt", "claim")
            words = ", ".join(f"{key} {shown(observation[key])}" for key in named)
            raise Unacceptable(f"answers no request to target {self.target}, with its parameters and steps: {words}")


def _text(note: Json) -> str:
    return json.dumps(note, sort_keys=True)  # 1 is not true
