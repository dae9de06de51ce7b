"""Opening a target: the claimed target is verified and ready for use, or nothing was touched."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import cast

from fsage.base import JsonView, Refusal
from fsage.host.system import files
from fsage.host.targets import Target, budget, claims, kinds, lease
from fsage.model import declaration, limits
from fsage.model.claim import Claim
from fsage.model.hosts import Asker, clients_of, servers_of
from fsage.model.request import Request
from fsage.model.target import Spec


def open_target(declared: JsonView) -> Target:
    """The claimed target: devices attached, mounted, and verified with the kernel by identity and UUID.

    What a killed command left is completed or undone first. Raises Refusal for anything that is not exactly what was
    claimed; nothing has been touched then.
    """
    spec = declaration.complete(declared)
    spec["limits"] = budget.effective(spec["limits"])
    home = declaration.home_of(spec)
    kind = kinds.named(spec["kind"])
    claim = claim_of(spec)
    where = f"on {os.uname().nodename}"
    if claim["status"] != "claimed":
        raise Refusal(
            f"target {spec['name']} is half {'claimed' if claim['status'] == 'claiming' else 'released'} "
            f"{where}: its command was interrupted; run that command again"
        )
    declaration.refuse_edits(claim, spec)
    applied = declaration.as_declared(claim, spec)
    if applied is not claim and (home / "claim.json").exists():
        files.write_json(home / "claim.json", applied)
    target = cast("type[Target]", kind)(spec, applied)
    target.pace = budget.Pace(spec["limits"])
    with files.locked(home / "open.lock"):
        target.open()
    return target


def claim_of(spec: Spec) -> Claim:
    """The claim as this host or the target has it, of whatever status. Raises Refusal where there is none."""
    home = declaration.home_of(spec)
    kind = kinds.named(spec["kind"])
    claim = claims.read(home) or kind.claimed_elsewhere(spec)
    if claim:
        return claim
    left = kind.left_behind(spec)
    if left:
        raise Refusal(why_left_behind(spec, left))
    raise Refusal(
        f"target {spec['name']} has not been claimed on {os.uname().nodename} (no {home}/claim.json); claim it first: "
        f"`./run fsage claim --target {spec['name']}`{kind.how_shared}"
    )


def refuse_other_claim(request: Asker, claim: Claim) -> None:
    """Raise Refusal where a request was made for another claim of the target."""
    if request.get("claim") not in (None, claim["id"]):
        raise Refusal(
            f"target {claim['target']} was claimed anew at {claim['created']}: this request was made from an older "
            "claim, and nothing was touched. `fsage claim` fetches the new claim. Records of the old claim may be of "
            "another image or another amount: quarantine them before you continue"
        )


def refuse_other_clients(request: Asker, claim: Claim) -> None:
    """Raise Refusal where the inventory's clients are others than those of the claim, or in another order."""
    names = [host["name"] for host in clients_of(request)]
    claimed = claim.get("hosts", [])
    if names != claimed and max(len(names), len(claimed)) > 1:
        raise Refusal(
            f"target {claim['target']} was claimed for the clients {', '.join(claimed) or 'none'}, and the inventory "
            f"names {', '.join(names) or 'none'}: a study's hosts stay the same. Nothing was touched. Name the claimed "
            "clients again, the launcher first, or release the target and claim it for the new ones"
        )


def why_left_behind(spec: Spec, left: Claim) -> str:
    """What stands in the way where the target has a claim's mark and this host no note of it, and the way out."""
    name = spec["name"]
    host = os.uname().nodename
    where = left.get("host", "a host that is not named")
    since = left.get("created", "a time that is not noted")
    options = f"--target {name} --take-over {left['id']}"
    return (
        f"{left['stores'][0]['mount']} has the mark of target {name}, claimed on {where} at {since}, but {host} has no "
        f"note of that claim ({declaration.home_of(spec)}/claim.json), as in a container that was made again"
        f"{kinds.named(spec['kind']).how_shared}. Nothing was touched. If the target is still used elsewhere, release "
        f"it there. If not, empty it and claim it anew: `./run fsage claim {options}`, or give it back: `./run fsage "
        f"release {options}`"
    )


def opened(spec: JsonView, request: Asker, anywhere: bool = False) -> Target:
    """The target of the request, verified, for a command that holds no lease yet. Raises Refusal.

    The lease is checked first. Opening mounts what is not mounted, and the run that holds the target may have unmounted
    it to mount it anew.
    """
    lease.refuse_if_held(declaration.home_of(declaration.complete(spec)), request)
    return verified(spec, request, anywhere)


@contextlib.contextmanager
def at_work(spec: JsonView, request: Asker, anywhere: bool = False, shared: bool = False) -> Iterator[Target]:
    """The target of the request (`opened`), held while the block runs (`lease.held`). Raises Refusal."""
    target = opened(spec, request, anywhere)
    if not anywhere:
        refuse_other_clients(request, target.claim)
    with lease.held(target.home, request, shared):
        yield target


def verified(spec: JsonView, request: Asker, anywhere: bool) -> Target:
    """The target, verified, with the claim that the request was made for. Raises Refusal.

    The lease is on the host that claimed the target. Hosts that know the claim from the target alone need `anywhere`.
    """
    target = open_target(spec)
    if not anywhere and not (target.home / "claim.json").exists():
        raise Refusal(
            f"target {target.name} was claimed on {target.claim['host']}, and this is {os.uname().nodename}, which may "
            f"only populate and fragment. Nothing was touched; name {target.claim['host']} in group launcher"
        )
    target.osts.servers = servers_of(request)
    target.pace = budget.Pace(target.spec["limits"], max(1, len(clients_of(request))))
    target.inputs = request.get("inputs", {})
    refuse_other_claim(request, target.claim)
    for cell in cast(Request, request).get("cells", ()):
        for phase in cell.get("phases", ()):
            why = limits.why_not_kept(target.spec["limits"], phase)
            if why:
                raise Refusal(f"cell {cell['name']}: {why}; nothing was touched")
    return target
