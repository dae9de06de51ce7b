"""What hosts send is taken only as the answer to a request, and read by its types.

It is an observation, a state's evidence, a claim, or what a host is and can do. A host's word is believed about what
it measured and nothing else. Each message is bounded in size and depth (fsage.base.message), its numbers are finite,
and its names are no parts of paths. Keys beside those declared are kept as they are: plain JSON within the same
bounds.

Requests to a target are noted in its results. A note is kept for ever: what a lost run left on its host is taken
whenever it comes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from fsage.base import MIB, Json, JsonView, typed
from fsage.base.message import Unacceptable, check, read, shown
from fsage.model import kinds
from fsage.model.claim import WHOLE, Claim
from fsage.model.hosts import Probe
from fsage.model.observation import Observation, StateEvidence
from fsage.plan import results
from fsage.plan.results import Results

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


OF_REQUEST = ("claim", "nominal", "steps")
OF_CELL = ("attempt", "kind", "order", "params")
Note = dict[str, object]


def note_request(where: Results, request: JsonView) -> None:
    """Note the cells of a request, before it goes to a host."""
    path = where.requested(request["state"])
    noted = results.read(path) or []
    texts = set(map(_text, noted))
    new = [
        {"cell": cell["name"], **{key: request[key] for key in OF_REQUEST}, **{key: cell[key] for key in OF_CELL}}
        for cell in request["cells"]
    ]
    new = [entry for entry in new if _text(entry) not in texts]
    if new:
        results.write(path, [*noted, *new])


class Requested:
    """The requests to a target: each note is read once, however many answers there are."""

    def __init__(self, root: Path, target: str) -> None:
        self.root = root
        self.target = target
        self._notes: dict[tuple[str, str], dict[tuple[str, str, int], list[Json]]] = {}

    def match(self, observation: JsonView) -> None:
        """Raise Unacceptable when a typed observation answers no request to this target.

        Its study and state are names, so the note lies below the results, whatever they are.
        """
        same_as(observation, {"target": self.target})
        words = ", ".join(f"{key} {shown(observation[key])}" for key in ("study", "state", "cell", "attempt", "claim"))
        notes = self._of_state(observation["study"], observation["state"]).get(_key(observation))
        if not notes:
            raise Unacceptable(f"answers no request to target {self.target}: {words}")
        why: Unacceptable | None = None
        for note in notes:  # of several versions of a study
            try:
                same_as(observation, {key: note[key] for key in ("kind", "order", "params", "nominal")})
                same_as(observation["layout"], {"steps": note["steps"]})
            except Unacceptable as error:
                why = error
            else:
                return
        raise Unacceptable(f"{why} ({words})")

    def _of_state(self, study: str, state: str) -> dict[tuple[str, str, int], list[Json]]:
        if (study, state) not in self._notes:
            notes = self._notes[study, state] = {}
            for note in results.read(Results(self.root, self.target, study).requested(state)) or []:
                notes.setdefault(_key(note), []).append(note)
        return self._notes[study, state]


def _key(note: JsonView) -> tuple[str, str, int]:
    return note["cell"], note["claim"], note["attempt"]


def _text(note: Note) -> str:
    return json.dumps(note, sort_keys=True)
