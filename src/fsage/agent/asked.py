"""The request, as an agent takes it: its keys are of their types, and what becomes part of a path is a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fsage.agent import structure, tuning
from fsage.agent.errors import Refusal
from fsage.agent.message import NAME, Unacceptable, is_name, shown

ATTEMPTS = 10**6
WHOLE = {"run", "host", "machine", "pid", "pid_start", "command", "since"}  # of a holder


def checked(request: Any, hosts: Any) -> dict[str, Any]:
    """The request with the inventory's hosts, if it can be worked with. Raises Refusal naming the key and its value."""
    if not isinstance(request, dict):
        raise Refusal(f"the request is {shown(request)} and no block of keys; nothing was touched")
    request = {**request, "hosts": hosts}
    for key, value in request.items():
        if key not in KEYS:
            raise Refusal(f"the request has the key {shown(key)}, and there is none; known: {', '.join(KEYS)}")
        good, wanted = KEYS[key]
        if not good(value):
            raise Refusal(f"the request's {key} is {shown(value)}: {wanted} is wanted; nothing was touched")
    for number, one in enumerate(request.get("cells") or ()):
        for key, good, wanted in CELL:
            if not good(one.get(key)):
                raise Refusal(
                    f"cells[{number}] of the request: {key} is {shown(one.get(key))}: {wanted} is wanted; "
                    "nothing was touched"
                )
    if "tuning" in request:
        try:
            tuning.check(request["tuning"])
        except Unacceptable as why:
            raise Refusal(f"the request's {why}; nothing was touched") from None
    return request


def needed(verb: str, request: dict[str, Any]) -> None:
    """Raise Refusal when the request is without a key that the verb works with."""
    for key in NEEDED.get(verb, ()):
        if key not in request:
            raise Refusal(
                f"the request is without {key!r}; nothing was touched. `fsage request STUDY STATE > request.json` "
                "makes a whole one"
            )


def _block(value: Any) -> bool:
    return isinstance(value, dict)


def _blocks(value: Any) -> bool:
    return isinstance(value, list) and all(map(_block, value))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _attempt(value: Any) -> bool:
    return _whole(value) and 1 <= value <= ATTEMPTS


def _text(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()


def _steps(value: Any) -> bool:
    return _blocks(value) and all(step.get("kind") in structure.kinds() for step in value)


def _phases(value: Any) -> bool:
    return _blocks(value) and all(is_name(phase.get("name")) for phase in value)


def _holder(value: Any) -> bool:
    return _block(value) and value.keys() >= WHOLE and _whole(value["pid"]) and is_name(value["run"])


def _hosts(value: Any) -> bool:
    return _block(value) and all(
        _blocks(some) and all(_text(one.get("name")) for one in some) for some in value.values()
    )


def _or_none(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or good(value)


NEEDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("scrub", "begin_step", "work_on_step", "end_step"), ("state", "steps")),
    "evidence": ("study", "state", "steps"),
    "measure": ("study", "state", "steps", "cells"),
    "prealloc": ("prealloc",),
    "prealloc_osts": ("prealloc",),
}
NAMED = f"a name ({NAME})"
KEYS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "schema": (lambda value: value == 1, "1"),
    "study": (is_name, NAMED),
    "state": (is_name, NAMED),
    "nominal": (_block, "a block of keys"),
    "run": (_or_none(is_name), NAMED),
    "holder": (_or_none(_holder), f"a block with {', '.join(sorted(WHOLE))}"),
    "gone": (lambda value: isinstance(value, list) and all(map(is_name, value)), "a list of names of runs"),
    "release": (lambda value: isinstance(value, bool), "true or false"),
    "slurm_job": (_or_none(is_name), NAMED),
    "claim": (_or_none(is_name), NAMED),
    "until": (
        _or_none(lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
        "a number of seconds",
    ),
    "tuning": (_block, "a block of keys"),
    "reuse": (lambda value: value in ("nested", "fresh"), "nested or fresh"),
    "steps": (_steps, f"a list of blocks, the kind of each one of {', '.join(structure.kinds())},"),
    "first_instance": (_or_none(is_name), NAMED),
    "cells": (_blocks, "a list of blocks"),
    "bundle": (_text, "a path on the machine that runs the playbook"),
    "evidence": (_text, "a path on the machine that runs the playbook"),
    "claim_copy": (_text, "a path on the machine that runs the playbook"),
    "hosts": (_or_none(_hosts), "the inventory's clients and servers"),
    "osts": (lambda value: isinstance(value, (dict, list)), "what the servers answered"),
    "prealloc": (_block, "a block of keys"),
    "launches": (lambda value: isinstance(value, bool), "true or false"),
    "destroy": (lambda value: isinstance(value, str), "the name of a file system"),
}
CELL: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("name", is_name, NAMED),
    ("kind", is_name, NAMED),
    ("attempt", _attempt, f"a whole number from 1 to {ATTEMPTS}"),
    ("order", _whole, "a whole number"),
    ("params", _block, "a block of keys"),
    ("phases", _phases, "a list of blocks, each with a name,"),
)
