"""What the launcher asked a target for, noted in its results: only answers to that are taken.

A note is kept for ever: what a lost run left on its host is taken whenever it comes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsage.model.message import Unacceptable, shown
from fsage.plan import results
from fsage.plan.results import Results
from fsage.records.messages import same_as

OF_REQUEST = ("claim", "nominal", "steps")
OF_CELL = ("attempt", "kind", "order", "params")
Asked = dict[str, object]


def note(where: Results, request: Mapping[str, Any]) -> None:
    """Note the cells of a request, before it goes to a host."""
    path = where.asked(request["state"])
    noted = results.read(path) or []
    known = set(map(_text, noted))
    new = [
        {"cell": cell["name"], **{key: request[key] for key in OF_REQUEST}, **{key: cell[key] for key in OF_CELL}}
        for cell in request["cells"]
    ]
    if new := [one for one in new if _text(one) not in known]:
        results.write(path, [*noted, *new])


def match(root: Path, target: str, observation: Mapping[str, Any]) -> Results:
    """The results to which a typed observation belongs. Raises Unacceptable when nobody asked this target for it.

    Its study and state are names, so the note lies below the results, whatever they are.
    """
    where = Results(root, target, observation["study"])
    same_as(observation, {"target": target})
    words = ", ".join(f"{key} {shown(observation[key])}" for key in ("study", "state", "cell", "attempt", "claim"))
    noted = [
        one
        for one in results.read(where.asked(observation["state"])) or []
        if all(one[key] == observation[key] for key in ("cell", "claim", "attempt"))
    ]
    if not noted:
        raise Unacceptable(f"answers what target {target} was not asked for: {words}")
    why: Unacceptable | None = None
    for one in noted:  # of several versions of a study
        try:
            same_as(observation, {key: one[key] for key in ("kind", "order", "params", "nominal")})
            same_as(observation["layout"], {"steps": one["steps"]})
        except Unacceptable as error:
            why = error
        else:
            return where
    raise Unacceptable(f"{why} ({words})")


def _text(one: Asked) -> str:
    return json.dumps(one, sort_keys=True)
