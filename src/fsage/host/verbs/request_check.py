"""The check of a request where it arrives: keys have their types, and what becomes part of a path is a name."""

from __future__ import annotations

from fsage.model import tuning, typed
from fsage.model.errors import Refusal
from fsage.model.message import Unacceptable, shown
from fsage.model.request import Request

NEEDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("scrub", "apply_step", "work_on_step", "end_step"), ("state", "steps")),
    "evidence": ("study", "state", "steps"),
    "measure": ("study", "state", "steps", "cells"),
    "prealloc": ("prealloc",),
    "prealloc_osts": ("prealloc",),
}


def checked(request: object, hosts: object) -> Request:
    """The request with the inventory's hosts, checked. Raises Refusal naming the key and its value."""
    if not isinstance(request, dict):
        raise Refusal(f"the request is {shown(request)}, and a block of keys is wanted; nothing was touched")
    keys = typed.hints(Request)
    for key in request:
        if key not in keys:
            raise Refusal(f"the request has the unknown key {shown(key)}; known are {', '.join(keys)}")
    try:
        checked_request: Request = typed.read(Request, {**request, "hosts": hosts})
        tuning.check(checked_request.get("tuning", {}))
    except Unacceptable as why:
        raise Refusal(f"the request's {why}; nothing was touched") from None
    return checked_request


def needed(verb: str, request: Request) -> None:
    """Raise Refusal when the request is without a key that the verb works with."""
    for key in NEEDED.get(verb, ()):
        if key not in request:
            raise Refusal(
                f"the request lacks the key {key!r}; nothing was touched. `fsage request STUDY STATE > request.json` "
                "makes a complete request"
            )
