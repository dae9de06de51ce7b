"""What is changed outside a target: client tunables, set and restored, and all else that `recover` puts back.

A tunable has a requested value, a value before, and a value read back. Schedulers, control groups and controllers are
put back while the target stays claimed. Its loop devices are detached for it, because their workers keep control
groups for minutes; the next command on the target attaches and mounts them again.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from fsage.base import Failure, Json, JsonView, Refusal
from fsage.base.sizes import counted
from fsage.host.device import below, loops, models
from fsage.host.instruments import cleanup
from fsage.host.loop import images
from fsage.host.system import files, settings
from fsage.host.targets import claims, kinds, lease
from fsage.host.targets.lease import holder_of
from fsage.host.targets.opening import at_work, open_target
from fsage.model.declaration import complete, home_of
from fsage.model.hosts import Asker
from fsage.model.request import Request
from fsage.model.target import Spec


def tune(spec: Json, request: Request, check: bool) -> Json:
    """Set the tunables in `request["tuning"]` and no others: those of Lustre, or of the block queue of every store.

    What the target does not have (max_rpcs_in_flight on a block queue, say) is noted as unsupported. What an earlier
    request set, and this one does not name, is put back; all is when the run ends, or the target is released.
    """
    wanted = request.get("tuning", {})
    with at_work(spec, request, anywhere=True) as target:
        model = target.model_in_place()
        earlier = claims.read_tunables(target.home)
        changed, proof, noted = target.tune(wanted, holder_of(target.spec, request), check)
        if not check:
            claims.note_tunables(target.home, noted)
        return {
            "changed": changed or noted != earlier,
            "msg": f"{counted(len(wanted), 'tunable')} {'would be set' if check else 'set'}",
            "proof": proof,
            "tunables": {**claims.complete_tunables(target.home), **noted},
            "device_model": model,
        }


def restore(spec: Json, request: Request, check: bool) -> Json:
    """Restore the tunables of a claimed target to their values before the first `tune`, and remove the note."""
    with at_work(spec, request, anywhere=True) as target:
        proof = target.untune(holder_of(target.spec, request), check)
        if not check:
            claims.note_tunables(target.home, {})
        done = "would be put back" if check else "put back"
        return {"changed": bool(proof), "msg": f"{len(proof)} tunables {done}", "proof": proof}


def untune(declared: JsonView, request: Request, check: bool) -> Json:
    """Restore what `tune` set for a target on this host, whether or not the target can still be opened.

    Tunables of loop devices end with the devices.
    """
    spec = complete(declared)
    home = home_of(spec)
    holder = holder_of(spec, request)
    of_kind = kinds.named(spec["kind"])
    held_here = any(settings.same(holder, other) for other in of_kind.holders())
    changed = not check and (held_here or bool(claims.read_tunables(home)))
    proof = list[str]()
    if changed:
        with lease.held(home, request):
            back = of_kind.undo_tunables(holder)
            proof = _device_back(spec, holder) if back is None else back
            claims.note_tunables(home, {})
    beside = (home / lease.NOTE).exists() and not (home / "claim.json").exists()
    if request.get("release") and not check and beside:  # on the first client `hold` does it
        lease.drop(home, request)
    message = "put back the tunables of this host" if changed else "no tunables to put back here"
    return {"changed": changed, "msg": message, "proof": proof}


def _device_back(spec: Spec, holder: settings.Holder) -> list[str]:
    """Restore the tunables of a target's own devices; none where it is not open any more."""
    claim = claims.read(home_of(spec))
    if not claim or claim["status"] != "claimed":
        return []
    try:
        return open_target(spec).untune(holder, False)
    except (Refusal, Failure) as why:  # its devices are gone, or not its own: what was set went with them
        return [f"no device to put back tunables of: {why}"]


def settle(request: Asker) -> None:
    """Put back what runs have set on this host that were killed since, of any target; what cannot be stays noted."""
    if not os.path.exists(settings.NOTE):  # or its folder is root's alone, who has noted nothing there
        return
    for of_kind in kinds.every():
        for holder in of_kind.holders():
            if os.geteuid() in (0, holder["user"]) and lease.gone(holder, request):
                with contextlib.suppress(Failure, Refusal, OSError):
                    of_kind.undo_tunables(holder)
                    if holder["user"] == os.geteuid():
                        claims.note_tunables(Path(holder["home"]), {})


def recover(declared: JsonView, request: Request, check: bool) -> Json:
    """Put back all that the journal names: of a command that was killed, or of a device model that is in place.

    Returns {"changed", "msg", "proof"}, a sentence for each thing that was put back. Raises Refusal (somebody holds
    the target) and Failure (what could not be put back stays noted).
    """
    spec = complete(declared)
    home = home_of(spec)
    changed = bool(settings.journal_of(home).entries()) or cleanup.shared_left_over()
    if check or not changed:
        if home.is_dir():
            lease.refuse_if_held(home, request)
        words = "would put back what was changed" if changed else "nothing was changed"
        return {"changed": changed, "msg": f"{words} outside target {spec['name']}", "proof": []}
    with lease.held(home, request):
        proof = undo(home)
    sentences = "; ".join(proof) or "nothing was changed"
    return {"changed": True, "msg": f"target {spec['name']}: {sentences}", "proof": proof}


def undo(home: Path) -> list[str]:
    """Put back all that the journal names, for a caller that holds the target; a sentence for each thing."""
    with files.locked(home / "open.lock"):
        cleanup.end_running(home)
        proof = cleanup.undo(home, cleanup.of_a_cell())
        for image in images.all_of(home):
            loops.take_away(image)
        return proof + models.end_disks(home) + cleanup.undo(home, below.UNDO) + cleanup.undo(home)
