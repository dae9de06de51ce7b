"""Removing what a host keeps for a released target: connections to Lustre's servers, and the target's home."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from fsage.host.lustre import servers
from fsage.host.verbs import claim
from fsage.model.declaration import complete, home_of
from fsage.model.hosts import servers_of
from fsage.model.request import Request


def leave(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """Close the kept connections to this target's servers, and remove what is kept of a target that is not claimed."""
    spec = complete(declared)
    home, lustre = home_of(spec), spec["lustre"]
    named = {*(host["name"] for host in servers_of(request)), *lustre["oss"]} if lustre else set()
    if check:
        return {"changed": False, "msg": f"would close the connections kept to {', '.join(sorted(named))}", "proof": []}
    proof = servers.hang_up(named)
    if home.is_dir() and not any((home / name).exists() for name in ("claim.json", "lease.json", "images.json")):
        claim.forget(spec)
    with contextlib.suppress(OSError):  # not empty: another target uses it, or others do
        home.parent.rmdir()
        proof.append(f"{home.parent} is gone")
    return {"changed": False, "msg": f"this host keeps nothing of target {spec['name']}", "proof": proof}
