"""Checks before anything is done, of a request, a site and a machine.

- A request is checked where it arrives: keys have their types, and what becomes part of a path is a name.
- A site: what a host can do, and on the launcher, whether the target could be claimed as it is declared.
- A machine: what it holds for fsage, whichever clone made it: claimed targets, images, directories with a lost claim.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from fsage.base import GIB, Failure, Json, JsonView, Refusal, in_words, typed
from fsage.base.message import Unacceptable, shown
from fsage.host.kinds.directory import Directory
from fsage.host.remote import probe
from fsage.host.system import files
from fsage.host.targets import claims, kinds
from fsage.host.targets.kinds import Result
from fsage.host.verbs import claim
from fsage.model import declaration, tuning
from fsage.model.answers import HeldTarget
from fsage.model.declaration import complete
from fsage.model.request import Request
from fsage.model.target import Spec

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
    found = probe.probe(declared, request)
    if request.get("launches") and found["able"]:
        found["refused"] = why_refused(declared, request)
        offered = capacity_bytes(declared)
        if offered is not None:
            found["capacity_bytes"] = offered
    words = f"{found['host']} can hold a {complete(declared)['kind']} target"
    if found["missing"]:
        words = f"{found['host']} cannot hold a {complete(declared)['kind']} target: {'; '.join(found['missing'])}"
    return {"changed": False, "msg": words, "probe": found}


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


def held(homes: Sequence[Path], declared: Sequence[Spec]) -> list[HeldTarget]:
    """The targets that these homes note, and declared ones that have a claim's mark and no note. Changes nothing."""
    found: list[HeldTarget] = []
    for home in homes:
        found += _noted(home)
    known = {target.home for target in found}
    for spec in declared:
        home = declaration.home_of(spec)
        if home in known:
            continue
        with contextlib.suppress(Refusal, Failure, OSError):  # another file system, or none: nothing of ours is known
            left = kinds.named(spec["kind"]).left_behind(spec)
            if left:
                place = left["stores"][0]["mount"]
                what = f"{place}, claimed {left.get('created', 'once')}, whose note is lost"
                found.append(HeldTarget(spec["name"], spec["kind"], home, what, None, left["id"]))
    return found


def _noted(home: Path) -> list[HeldTarget]:
    try:
        names = sorted(os.listdir(home))
    except FileNotFoundError:
        return []
    except OSError as error:
        return [HeldTarget(str(home), "", home, f"which cannot be read ({error.strerror})", None)]
    found = []
    for name in names:
        place = home / name
        if not place.is_dir():
            continue
        try:
            claim = files.read_json(place / "claim.json")
            images = files.read_json(place / "images.json")
        except (Refusal, Failure, OSError) as why:
            found.append(HeldTarget(name, "", place, f"whose note cannot be read ({in_words(why)})", None))
            continue
        if claim or images:
            inventory = place / claims.INVENTORY
            kind = claim["kind"] if claim else "loop"
            what = _words(claim, images)
            found.append(HeldTarget(name, kind, place, what, inventory if inventory.exists() else None))
    return found


def _words(claim: Json | None, images: Json | None) -> str:
    """Since when it is held, and where."""
    if claim:
        since = f"{claim['status']} {claim['created']} on {claim['host']}"
    else:
        since = "made, not claimed"
    if images:
        on_disk = [images["below"]] if "below" in images else images["images"]
        where = f"{_taken(on_disk)} in {Path(on_disk[0]['image']).parent}"
    elif claim:
        where = str(claim["stores"][0]["mount"])
    else:
        where = "nowhere"
    return f"{since}, {where}"


def _taken(images: Sequence[Json]) -> str:
    """What images take on the disk; nothing where one is gone."""
    taken_bytes = 0
    for image in images:
        try:
            taken_bytes += os.stat(image["image"]).st_blocks * 512
        except FileNotFoundError:
            continue
        except OSError as error:
            return f"images whose size cannot be read ({error.strerror})"
    return f"{taken_bytes / GIB:.1f} GiB"
