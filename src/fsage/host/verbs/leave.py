"""Removing what a host keeps for a released target: its home."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from fsage.host.verbs import claim
from fsage.model.declaration import complete, home_of
from fsage.model.request import Request


def leave(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """Remove what is kept of a target that is not claimed."""
    spec, proof = complete(declared), list[str]()
    home = home_of(spec)
    if check:
        return {"changed": False, "msg": f"would remove what is kept of target {spec['name']}", "proof": proof}
    if home.is_dir() and not any((home / name).exists() for name in ("claim.json", "lease.json", "images.json")):
        claim.forget(spec)
    with contextlib.suppress(OSError):  # not empty: another target uses it, or others do
        home.parent.rmdir()
        proof.append(f"{home.parent} is gone")
    return {"changed": False, "msg": f"this host keeps nothing of target {spec['name']}", "proof": proof}
