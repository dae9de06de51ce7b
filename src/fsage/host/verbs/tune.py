"""Client tunables: requested value, value before, and value read back."""

from __future__ import annotations

from collections.abc import Mapping

from fsage.host.lustre import tunables
from fsage.host.system.files import read_json, write_json
from fsage.host.targets.lease import held
from fsage.host.targets.opening import opened
from fsage.model import tuning
from fsage.model.declaration import complete, home_of
from fsage.model.errors import Refusal
from fsage.model.message import Unacceptable
from fsage.model.request import Request


def tune(spec: dict[str, object], request: Request, check: bool) -> dict[str, object]:
    """Set the tunables in `request["tuning"]`: those of Lustre, or of the block queue of every store.

    What the target does not have (max_rpcs_in_flight on a block queue, say) is noted as unsupported.
    What is set is put back when the target is released: the values before stand in tunables.json.
    """
    wanted = request.get("tuning", {})
    try:
        tuning.check(wanted)  # before the target is opened, which mounts it
    except Unacceptable as why:
        raise Refusal(f"{why}; nothing was touched") from None
    target = opened(spec, request, anywhere=True)
    with held(target.home, request):
        path = target.home / "tunables.json"
        noted = read_json(path) or {}
        model = target.model_in_place()
        changed, proof = target.tune(wanted, noted, check)
        if changed and not check:
            write_json(path, noted)
        return {
            "changed": changed,
            "msg": f"{len(wanted)} tunables" + (", of which nothing was set" if check else ""),
            "proof": proof,
            "tunables": noted,
            "device_model": model,
        }


def restore(spec: dict[str, object], request: Request, check: bool) -> dict[str, object]:
    """Restore the tunables of a claimed target to their values before the first `tune`, and remove the note."""
    target = opened(spec, request, anywhere=True)
    with held(target.home, request):
        proof = target.untune(target.home / "tunables.json", check)
        done = "would be put back" if check else "put back"
        return {"changed": bool(proof), "msg": f"{len(proof)} tunables {done}", "proof": proof}


def untune(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """Restore Lustre's tunables on this host. Those of loop devices end with the devices."""
    spec = complete(declared)
    lustre, path = spec["lustre"], home_of(spec) / "tunables.json"
    if not lustre or check or not path.exists():
        return {"changed": False, "msg": "no tunables to put back here", "proof": []}
    with held(home_of(spec), request):
        proof = tunables.put_back(lustre["fsname"], path)
        return {"changed": True, "msg": "put back the tunables of this host", "proof": proof}
