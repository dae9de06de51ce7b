"""Create a target of any kind, claim it, give it back and remove it.

The claim is written to `<home>/<target>/claim.json` *before* the first mkfs, with the identity of the images and the
UUIDs to come. After a kill at any moment the next `claim` completes it, or `remove` clears it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path

from fsage.base import Failure, JsonView, Refusal, shell
from fsage.host import containers
from fsage.host.instruments import cleanup
from fsage.host.remote.remote_hosts import meet, refuse_unfit
from fsage.host.system import files, places
from fsage.host.targets import budget, claims, directories, kinds, lease
from fsage.host.targets.kinds import Result
from fsage.host.targets.opening import open_target, refuse_other_clients, why_left_behind
from fsage.model import declaration
from fsage.model.claim import utc_now
from fsage.model.request import Request
from fsage.model.target import Spec

CLAIM_S = 60.0  # of calibrating, about


def take_over(spec: Spec, request: Request, check: bool) -> Result | None:
    """Take over a target that has a claim's mark while this host has no note of that claim; the answer of a check.

    The claim is noted as half released, and whoever comes next clears the target. Raises Refusal where the request does
    not name that claim, because another host may use it.
    """
    home = declaration.home_of(spec)
    if claims.read(home):
        return None
    left = kinds.named(spec["kind"]).left_behind(spec)
    if not left:
        return None
    if request.get("take_over") != left["id"]:
        raise Refusal(why_left_behind(spec, left))
    if check:
        return {"changed": True, "msg": f"would take over and empty {left['stores'][0]['mount']}", "proof": []}
    if left.get("made"):
        files.write_json(home / directories.MADE, left["made"])
    files.write_json(home / "claim.json", {**left, **claims.here(), "status": "releasing"})
    return None


def _alone(do: Callable[[Spec, Request, bool], Result]) -> Callable[[JsonView, Request, bool], Result]:
    """A verb that does this to a target: it is taken over before if need be, and held where its home exists."""

    @functools.wraps(do)
    def verb(declared: JsonView, request: Request, check: bool) -> Result:
        spec = declaration.complete(declared)
        would = take_over(spec, request, check)
        if would:
            return would
        home = declaration.home_of(spec)
        if check or not home.is_dir():
            return do(spec, request, check)
        with lease.held(home, request):
            return do(spec, request, check)

    return verb


@_alone
def release(spec: Spec, request: Request, check: bool) -> Result:
    """Release the target: remove what is fsage's, restore the host settings, remove the claim, and verify all that."""
    released = give_back(spec, check)
    if not check and declaration.home_of(spec).is_dir():
        released["proof"] += forget(spec)
    return released


@_alone
def claim(spec: Spec, request: Request, check: bool) -> Result:
    """Claim the created target: make file systems, mounts and device model, and calibrate. Idempotent."""
    home = declaration.home_of(spec)
    noted = claims.read(home)
    if noted and noted["status"] == "claimed":
        refuse_other_clients(request, noted)
        if check:
            declaration.refuse_edits(noted, spec)
            kinds.named(spec["kind"]).check_claimed(spec, noted)
            refuse_unfit(spec, noted, request)
            return {"changed": False, "msg": f"target {spec['name']} is claimed", "claim": noted}
        target = open_target(spec)
        refuse_unfit(spec, noted, request)
        return {
            "changed": bool(target.notes),
            "msg": "; ".join(target.notes) or f"target {spec['name']} is claimed and intact",
            "claim": target.claim,
        }
    if noted and not check:  # a claim or a release was interrupted: remove its remains first
        give_back(spec, check)
    containers.check(spec["containers"])
    spec["limits"] = meet(spec, request)
    why = containers.why_unusable(spec["containers"])
    if why:
        raise Refusal(f"{why}. Nothing can be calibrated or measured without it, and nothing was touched")
    budget.refuse_now(spec["limits"], f"the claim of target {spec['name']}", CLAIM_S, 0, note=not check)
    try:
        answer = kinds.named(spec["kind"]).claim_new(spec, request, check)
        if not check:
            refuse_unfit(spec, answer["claim"], request)  # do they see the claim?
        return answer
    except (Refusal, Failure):
        if not check and claims.read(home):  # nothing stays of a claim that was begun and cannot be
            with contextlib.suppress(Refusal, Failure):
                give_back(spec, check)
        raise


def give_back(spec: Spec, check: bool) -> Result:
    """Release a target whose lease the caller holds."""
    home = declaration.home_of(spec)
    spec["limits"] = budget.effective(spec["limits"])
    noted = claims.read(home)
    kind = kinds.named(noted["kind"] if noted else spec["kind"])
    begun = bool(noted) or kind.begun(spec)
    if check or not begun:
        return {
            "changed": begun,
            "msg": f"{'would release' if begun else 'there is no claim of'} target {spec['name']}",
            "proof": [],
        }
    with files.locked(home / "open.lock"):
        if noted:
            noted["status"] = "releasing"
            files.write_json(home / "claim.json", noted)
        cleanup.end_running(home)  # a killed command may have left readers, which have the target's files open
        proof = [*kind.undo_claim(spec, noted), *budget.forget()]
        if noted:
            files.write_json(home / "released" / f"{utc_now()}.json", noted)
            files.remove(home / "tunables.json")  # the tunables ended with the loop devices
            places.remove(home / claims.KEPT)
            files.remove(home / "claim.json")
            proof.append(f"{home}/claim.json is gone")
    return {"changed": True, "msg": f"released target {spec['name']}", "proof": proof}


def leave(declared: JsonView, request: Request, check: bool) -> Result:
    """Remove what is kept of a target that is not claimed, and say what stays."""
    spec = declaration.complete(declared)
    proof = list[str]()
    home = declaration.home_of(spec)
    if check:
        return {"changed": False, "msg": f"would remove what is kept of target {spec['name']}", "proof": proof}
    if home.is_dir() and not any((home / name).exists() for name in ("claim.json", "images.json")):
        current = lease.living(home, request)
        if current:
            proof.append(f"{home} stays while {lease.describe(current)} holds it")
        else:
            proof += forget(spec)
    with contextlib.suppress(OSError):  # not empty: another target uses it, or others do
        home.parent.rmdir()
        proof.append(f"{home.parent} is gone")
    if not home.is_dir():
        return {"changed": False, "msg": f"this host keeps nothing of target {spec['name']}", "proof": proof}
    stays = ", ".join(sorted(path.name for path in home.iterdir()))
    return {"changed": False, "msg": f"this host keeps of target {spec['name']} {stays} in {home}", "proof": proof}


def forget(spec: Spec) -> list[str]:
    """Remove what the host keeps of a released target, but not images; a sentence on observations that are lost by it.

    These are of runs that were ended and never came back: their cells have no record, so they are measured again.
    """
    home = declaration.home_of(spec)
    waiting = len(list(home.glob("outbox/**/*.json")))
    for name in ("released", "status", "outbox", "bundles"):
        places.remove(home / name)
    if not (home / "images.json").exists():
        files.remove(home / claims.INVENTORY)
    for name in ("journal.json", "lease.json", "lease.lock", "open.lock", "lock", claims.DOING):
        files.remove(home / name)
    usual = [Path.home() / ".local/state/fsage", Path.home() / ".local/state", Path.home() / ".local"]
    # Its images stay, or other targets; of a user's folders what others have there.
    places.remove_empty(home, *(usual if home.parent == usual[0] else [home.parent]))
    if not waiting:
        return []
    return [f"{waiting} observations of runs that were ended, never fetched, were removed from {home / 'outbox'}"]


def create(declared: JsonView, request: Request, check: bool) -> Result:
    """Make the images or the directory of a target; idempotent."""
    spec = declaration.complete(declared)
    home = declaration.home_of(spec)
    kind = kinds.named(spec["kind"])
    containers.check(spec["containers"])
    would = take_over(spec, request, check)
    if would:
        return would
    noted = claims.read(home)
    if noted and noted["status"] != "claimed" and not kind.own_stores and not check:
        release(declared, request, check)  # what a killed command left, or what was just taken over
    claimed = (home / "claim.json").exists()
    kind.refuse_to_create(spec, claimed)
    if not claimed:
        why = shell.why_files_limited(kind.most_bytes(spec) or 0)
        if why:
            raise Refusal(f"{why} for target {spec['name']}: {shell.UNLIMITED}; nothing was touched")
        meet(spec, request)
    created = kind.create(spec, request, check)
    if not check:
        claims.note_inventory(spec, request)
    return created


@_alone
def remove(spec: Spec, request: Request, check: bool) -> Result:
    """Release the target, and delete what `create` made, and only that."""
    removed = kinds.named(spec["kind"]).remove(spec, check, give_back(spec, check))
    if not check:
        forget(spec)
    return removed
