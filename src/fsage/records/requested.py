"""Requests to a target, noted in its results: only their answers are accepted.

A note is kept for ever: what a lost run left on its host is taken whenever it comes.
"""

from __future__ import annotations

import json
from pathlib import Path

from fsage.model.message import Unacceptable, shown
from fsage.model.typed import Json, JsonView
from fsage.plan import results
from fsage.plan.results import Results
from fsage.records.messages import same_as

OF_REQUEST = ("claim", "nominal", "steps")
OF_CELL = ("attempt", "kind", "order", "params")
Note = dict[str, object]


def note(where: Results, request: JsonView) -> None:
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
