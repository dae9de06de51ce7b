"""Putting back what was changed outside a target while it stays claimed: schedulers, control groups, controllers.

The target's loop devices are detached for it, because their workers keep control groups for minutes; the next command
on the target attaches and mounts them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fsage.host.device import below, loops, seek
from fsage.host.instruments import cleanup, groups
from fsage.host.instruments.cleanup import shared_left_over, undo
from fsage.host.loop import images
from fsage.host.system import files, journal, mounting
from fsage.host.targets import claims, lease
from fsage.model import declaration
from fsage.model.request import Request


def recover(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """Put back all that the journal names: of a command that was killed, or of a device model that is in place.

    Returns {"changed", "msg", "proof"}, a sentence for each thing that was put back. Raises Refusal (somebody holds
    the target) and Failure (what could not be put back stays noted).
    """
    spec = declaration.complete(declared)
    home = declaration.home_of(spec)
    changed = bool(journal.entries(journal.path_of(home))) or shared_left_over()
    if check or not changed:
        if home.is_dir():
            lease.refuse_if_held(home, request)
        if changed:
            words = "would put back what was changed"
        else:
            words = "nothing was changed"
        return {"changed": changed, "msg": f"{words} outside target {spec['name']}", "proof": []}
    with lease.held(home, request):
        proof = put_back(home)
    sentences = "; ".join(proof) or "nothing was changed"
    return {"changed": True, "msg": f"target {spec['name']}: {sentences}", "proof": proof}


def put_back(home: Path) -> list[str]:
    """Put back all that the journal names, for a caller that holds the target; a sentence for each thing."""
    with files.locked(home / "open.lock"):
        groups.end_readers(home)
        proof = undo(home, cleanup.OF_A_CELL)
        for image in images.all_of(home, claims.read(home)):
            for device in loops.devices_of(image):
                mounting.unmount_all(device)
            loops.detach(image)
        return proof + undo(home, seek.UNDO) + undo(home, below.UNDO) + undo(home)
