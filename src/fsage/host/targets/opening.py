"""Opening a target: what was claimed, verified, is ready for use, or nothing was touched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import cast

from fsage.host.system import files
from fsage.host.targets import claims, kinds, lease
from fsage.host.targets.target import Target
from fsage.model import declaration, frozen
from fsage.model.errors import Refusal
from fsage.model.hosts import Asker, servers_of


def open_target(declared: Mapping[str, object]) -> Target:
    """The claimed target, its devices attached, mounted, and verified with the kernel by identity and UUID.

    What a killed command left is finished or undone first. Anything that is not exactly what was claimed is a
    `Refusal`, and nothing has been touched then.
    """
    spec = declaration.complete(declared)
    home, kind = declaration.home_of(spec), kinds.named(spec["kind"])
    claim = claims.read(home) or kind.claimed_elsewhere(spec)
    where = f"on {os.uname().nodename}"
    if claim is None:
        raise Refusal(
            f"target {spec['name']} has not been claimed {where} (no {home}/claim.json); claim it first: "
            f"ansible-playbook fsage.fsage.claim{kind.how_shared}"
        )
    if claim["status"] != "claimed":
        raise Refusal(
            f"target {spec['name']} is half {'claimed' if claim['status'] == 'claiming' else 'released'} "
            f"{where}: its command was interrupted; run that command again"
        )
    frozen.refuse(claim, spec)
    applied = frozen.as_declared(claim, spec)
    if applied is not claim and (home / "claim.json").exists():
        files.write_json(home / "claim.json", applied)
    target = cast("type[Target]", kind)(spec, applied)
    with files.locked(home / "open.lock"):
        target.open()
    return target


def opened(spec: Mapping[str, object], request: Asker, anywhere: bool = False) -> Target:
    """The target of the request, verified, for a command of its own. Raises Refusal.

    The lease comes first: to open mounts what is not mounted, and a run that holds the target may just mount it anew.
    """
    lease.refuse_if_held(declaration.home_of(declaration.complete(spec)), request)
    return verified(spec, request, anywhere)


def verified(spec: Mapping[str, object], request: Asker, anywhere: bool = False) -> Target:
    """The target, verified, and claimed as the request's maker knew it. Raises Refusal.

    Only `anywhere` on hosts that know the claim from the target alone: the lease is where it was claimed.
    """
    target = open_target(spec)
    if not anywhere and not (target.home / "claim.json").exists():
        raise Refusal(
            f"target {target.name} was claimed on {target.claim['host']} and not on {os.uname().nodename}: here its "
            "files are only populated and fragmented. Nothing was touched; name that host first in group clients"
        )
    target.servers = servers_of(request)
    target.inputs = request.get("inputs", {})
    if request.get("claim") not in (None, target.claim["id"]):
        raise Refusal(
            f"target {target.name} was claimed anew at {target.claim['created']}: this request was made from an older "
            "claim, and nothing was touched. `fsage claim` fetches the new one; records of the old one were taken on "
            "what may be another image, another amount: set them aside before you go on"
        )
    return target
