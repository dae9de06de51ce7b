"""Removing what a host keeps for a released Lustre target: connections to its servers, and its empty home."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from fsage.host.lustre import servers
from fsage.model.declaration import complete
from fsage.model.hosts import servers_of
from fsage.model.request import Request


def leave(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """Close the kept connections to this target's servers, and remove the home if it is empty."""
    spec = complete(declared)
    if not (lustre := spec["lustre"]):
        return {"changed": False, "msg": "no connection is kept for a target of this kind", "proof": []}
    named = {host["name"] for host in servers_of(request)}
    if check:
        return {"changed": False, "msg": f"would close the connections kept to {', '.join(sorted(named))}", "proof": []}
    proof = servers.hang_up({*named, *lustre["oss"]})
    home = Path(spec["home"])
    with contextlib.suppress(OSError):  # not empty: another target uses it, or others do
        home.rmdir()
        proof.append(f"{home} is gone")
    return {"changed": bool(proof), "msg": f"{len(proof)} traces of target {spec['name']} were removed", "proof": proof}
