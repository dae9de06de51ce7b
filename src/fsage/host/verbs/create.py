"""Create a target of any kind, ready to be claimed, and remove it."""

from __future__ import annotations

from collections.abc import Mapping

from fsage.host import containers
from fsage.host.remote.remote_hosts import meet
from fsage.host.system import shell
from fsage.host.targets import claims, kinds, lease
from fsage.host.targets.kinds import Result
from fsage.host.verbs import claim
from fsage.model import declaration
from fsage.model.errors import Refusal
from fsage.model.request import Request
from fsage.model.target import Spec


def create(declared: Mapping[str, object], request: Request, check: bool) -> Result:
    """Make the images or the directory of a target; idempotent."""
    spec = declaration.complete(declared)
    home = declaration.home_of(spec)
    kind = kinds.named(spec["kind"])
    containers.check(spec["containers"])
    would = claim.take_over(spec, request, check)
    if would:
        return would
    noted = claims.read(home)
    if noted and noted["status"] != "claimed" and not kind.own_stores and not check:
        claim.release(declared, request, check)  # what a killed command left, or what was just taken over
    claimed = (home / "claim.json").exists()
    kind.refuse_to_create(spec, claimed)
    if not claimed:
        why = shell.why_files_limited(kind.most_bytes(spec) or 0)
        if why:
            raise Refusal(f"{why} for target {spec['name']}: {shell.UNLIMITED}; nothing was touched")
        meet(spec, request)
    created = kind.create(spec, request, check)
    if not check:
        claims.note_inventory(declaration.complete(declared), request)
    return created


def remove(declared: Mapping[str, object], request: Request, check: bool) -> Result:
    """Release the target, and delete what `create` made, and only that."""
    spec = declaration.complete(declared)
    home = declaration.home_of(spec)
    would = claim.take_over(spec, request, check)
    if would:
        return would
    if check or not home.is_dir():
        return _remove(spec, check)
    with lease.held(home, request):
        return _remove(spec, check)


def _remove(spec: Spec, check: bool) -> Result:
    removed = kinds.named(spec["kind"]).remove(spec, check, claim.give_back(spec, check))
    if not check:
        claim.forget(spec)
    return removed
