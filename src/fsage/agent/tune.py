"""Client tunables: what was asked, what was there before, what is there now as read back."""

from __future__ import annotations

from fsage.agent.declaration import complete, home_of
from fsage.agent.errors import Failure, Refusal
from fsage.agent.files import read_json, remove, write_json
from fsage.agent.lease import held
from fsage.agent.lustre import tunables, tuned
from fsage.agent.state import opened


def tune(spec: dict, request: dict, check: bool) -> dict:
    """Set the tunables in `request["tuning"]`: those of Lustre, or of the block queue of every store.

    What the target does not have (max_rpcs_in_flight on a block queue, say) is noted as unsupported.
    What is set is put back when the target is released: the values before stand in tunables.json.
    """
    target = opened(spec, request, anywhere=True)
    wanted = request.get("tuning", {})
    with held(target.home, request):
        path = target.home / "tunables.json"
        noted = read_json(path) or {}
        model = target.model_in_place()
        changed = False
        proof: list[str] = []
        if target.kind == "lustre":
            changed, proof = tunables.tune(target.spec["lustre"]["fsname"], wanted, noted, check)
            wanted = {}
        for name, value in sorted(wanted.items()):
            knobs = [queue / name for queue in target.queues() if (queue / name).exists()]
            if not knobs:
                entry = {"asked": value, "unsupported": f"no block queue of target {target.name} has it"}
            else:
                found = [_value(knob) for knob in knobs]
                before = noted.get(name, {}).get("before") or found
                if not check:
                    for knob in knobs:
                        if _value(knob) != str(value):
                            _set(knob, value)
                            changed = True
                now = [_value(knob) for knob in knobs]
                if not check and any(one != str(value) for one in now):
                    raise Failure(f"{knobs[0]}: asked {value}, reads back {now}")
                entry = {"asked": value, "before": before, "now": now}
                proof.append(f"{name}: {_step(found, str(value))}")
            if "unsupported" in entry:
                proof.append(f"{name}: unsupported, {entry['unsupported']}")
            if noted.get(name) != entry:
                noted[name] = entry
                changed = True
        if changed and not check:
            write_json(path, noted)
        return {
            "changed": changed,
            "msg": f"{len(request.get('tuning', {}))} tunables" + (", of which nothing was set" if check else ""),
            "proof": proof,
            "tunables": noted,
            "device_model": model,
        }


def restore(spec: dict, request: dict, check: bool) -> dict:
    """Put back the tunables of a claimed target as they were before `tune` first set them, and forget them."""
    target = opened(spec, request, anywhere=True)
    with held(target.home, request):
        path = target.home / "tunables.json"
        if target.kind == "lustre":
            proof = tunables.put_back(target.spec["lustre"]["fsname"], path, check)
        else:
            proof = []
            noted = read_json(path) or {}
            for name in sorted(set(noted) - {tuned.NOTE}):
                entry = noted[name] if check else noted.pop(name)
                for queue, before in zip(target.queues(), entry.get("before", ())):  # noqa: B905 (hosts: Python 3.9)
                    if (found := _value(queue / name)) != before:
                        proof.append(f"{queue / name}: {found} -> {before}")
                        if not check:
                            _set(queue / name, before)
            if not check:
                write_json(path, noted) if noted else remove(path)
        done = "would be put back" if check else "put back"
        return {"changed": bool(proof), "msg": f"{len(proof)} tunables {done}", "proof": proof}


def _step(found: list[str], value: str) -> str:
    was = ", ".join(sorted(set(found)))
    return f"{was} (unchanged)" if was == value else f"{was} -> {value}"


def untune(spec: dict, request: dict, check: bool) -> dict:
    """Put Lustre's tunables of this host back; those of loop devices go with the devices."""
    spec = complete(spec)
    path = home_of(spec) / "tunables.json"
    if spec["kind"] != "lustre" or check or not path.exists():
        return {"changed": False, "msg": "no tunables to put back here", "proof": []}
    with held(home_of(spec), request):
        proof = tunables.put_back(spec["lustre"]["fsname"], path)
        return {"changed": True, "msg": "put back the tunables of this host", "proof": proof}


def _value(knob) -> str:
    text = knob.read_text().strip()
    return text.partition("[")[2].partition("]")[0] if "[" in text else text


def _set(knob, value) -> None:
    try:
        knob.write_text(str(value))
    except OSError as error:
        raise Refusal(
            f"{knob}: {value!r} was refused ({error.strerror}); it holds {knob.read_text().strip()!r}"
        ) from error
