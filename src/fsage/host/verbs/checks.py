"""Checks before anything is done: of a request, and of a site.

The check of a request where it arrives: keys have their types, and what becomes part of a path is a name.

What a host can do, and where it launches, whether the target could be claimed as it is declared.
"""

from __future__ import annotations

from fsage.base import Failure, JsonView, Refusal, typed
from fsage.base.message import Unacceptable, shown
from fsage.host.kinds.directory import Directory
from fsage.host.remote import probe
from fsage.host.targets import kinds
from fsage.host.targets.kinds import Result
from fsage.host.verbs import claim
from fsage.model import tuning
from fsage.model.declaration import complete
from fsage.model.request import Request

NEEDED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("scrub", "apply_step"), ("state", "steps")),
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


def check_site(declared: JsonView, request: Request, check: bool) -> Result:
    """The answer of `probe`; where the host launches, with what a claim would refuse. Changes nothing."""
    answer = probe.probe(declared, request, check)
    found = answer["probe"]
    if request.get("launches") and found["able"]:
        found["refused"] = why_refused(declared, request)
        offered = capacity_bytes(declared)
        if offered is not None:
            found["capacity_bytes"] = offered
    return answer


def capacity_bytes(declared: JsonView) -> int | None:
    """What a claim could take of a shared file system now; None where that is not known, or declared by itself."""
    spec = complete(declared)
    kind = kinds.named(spec["kind"])
    if not issubclass(kind, Directory):
        return None
    try:
        return kind.offer(spec).capacity_bytes
    except (Refusal, Failure, OSError):  # the claim would be refused, and `refused` says why
        return None


def why_refused(declared: JsonView, request: Request) -> str | None:
    """Why creating and claiming the target would be refused, by the checks of these commands; None: they would not."""
    try:
        created = claim.create(declared, request, True)
        if not created["changed"]:  # what is not made yet cannot be checked as what is
            claim.claim(declared, request, True)
    except (Refusal, Failure) as why:
        return str(why)
    return None
