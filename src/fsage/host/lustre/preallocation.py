"""The preallocation of servers: set by tune_prealloc.yml, and whether they still have it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fsage.base import Json, JsonView, Refusal
from fsage.base.message import shown
from fsage.host.lustre import ldiskfs
from fsage.host.lustre.servers import is_one
from fsage.host.system import files, places
from fsage.host.targets import lease
from fsage.host.targets.kinds import Servers
from fsage.host.targets.preallocation import NOTHING, of, read, settings_in, size_words, step_words
from fsage.host.targets.target import Target
from fsage.model.declaration import complete, fsname_of, home_of
from fsage.model.kinds.lustre import lustre_of
from fsage.model.request import Request
from fsage.model.structure import Step

TABLE = "prealloc_table"
SHOWN = 3


def verify_step(target: Target, step: Step) -> None:
    """`Refusal` unless the servers preallocate as much as the step needs to lay out its files."""
    wanted = step.server_preallocation_bytes()
    if wanted is None:
        return
    noted = of(target)
    size = read(noted["asked"]).size_bytes if noted else None
    if not noted or (size != wanted and "table" not in noted["asked"]):
        raise Refusal(
            f"target {target.name}: the servers lay out the state's files in extents of {size_words(wanted)}, and "
            f"tune_prealloc.yml set {noted['asked'] if noted else 'nothing'}: run it with "
            f"tune_prealloc_size={size_words(wanted)} first"
        )
    why = unavailable_because(target.osts, noted)
    if why:
        raise Refusal(f"target {target.name}: {why}")


def unavailable_because(servers: Servers, noted: JsonView | None) -> str | None:
    """Why the servers have another table than was `noted` when they were tuned; None: the same, or none was set."""
    wanted = {ost: entry[TABLE] for ost, entry in ((noted or {}).get("now") or {}).items() if TABLE in entry}
    if not wanted:
        return None
    tables: dict[str, str] = {}
    for answer in servers.ask_servers(do="prealloc").values():
        tables.update(answer["tables"])
    other = [ost for ost, table in sorted(wanted.items()) if tables.get(ost) != table]
    if not other:
        return None
    described = "; ".join(f"{ost} has {TABLE} {tables.get(ost)!r}" for ost in other[:SHOWN])
    if len(other) > SHOWN:
        more = f"; {len(other) - SHOWN} more have others"
    else:
        more = ""
    return (
        f"{described}{more}, and tune_prealloc.yml had set {wanted[other[0]]!r}: an OST loses its table when it is "
        "mounted anew. Another target's tune_prealloc.yml sets it, too. Without a size it sets the last requested "
        "value again"
    )


OF = {"prealloc_table": {"size", "table"}, "mb_last_group": {"group"}}  # what of a server each of them asks for


def prealloc_osts(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """Set `request["prealloc"]` on the OSTs that this host serves, or restore the values from before.

    Without a request the last one is set again: a table is lost with each umount of its OST.
    """
    spec = complete(declared)
    requested = request["prealloc"]
    path = home_of(spec) / "prealloc.json"
    host = os.uname().nodename
    noted = files.read_json(path)
    restore = requested["state"] == "restored"
    fsname = fsname_of(spec)
    if not fsname or (restore and noted is None):
        return {"changed": False, "msg": f"{host} has no preallocation to put back", "osts": {}}
    wanted = settings_in(requested) or (noted or {}).get("asked") or {}
    place = requested.get("proc") or (noted or {}).get("proc") or ldiskfs.PROC
    ask = read(wanted)
    osts = ldiskfs.served(fsname, requested.get("osts") or [], Path(place))
    if not osts:
        return {"changed": False, "msg": f"{host} serves no ldiskfs OST of {fsname}", "osts": {}}
    if not wanted:
        raise Refusal(f"{host}: {NOTHING}")
    if restore:
        values = {ost.name: ldiskfs.Values() for ost in osts}
    else:
        values = ldiskfs.wanted(osts, ask)
    before = {ost.name: ost.now() for ost in osts}
    if not check and not restore:
        files.write_json(path, {"asked": wanted, "proc": place})
    changed = ldiskfs.put(osts, values, lease.holder_of(spec, request), restore, check)
    if restore and not check:
        files.remove(path)
        places.remove_empty(path.parent, path.parent.parent)
    now = {ost.name: {**before[ost.name], **changed.get(ost.name, {})} if check else ost.now() for ost in osts}
    touched = [key for key, of in OF.items() if of & set(wanted) or any(key in own for own in changed.values())]
    steps = {ost.name: [(key, before[ost.name][key], now[ost.name][key]) for key in touched] for ost in osts}
    return {
        "changed": bool(changed),
        "msg": f"{len(osts)} ldiskfs OSTs of {fsname} on {host}",
        "proof": [
            f"{ost.name} ({ost.device}): {key} {step_words(was, has)}"
            for ost in osts
            for key, was, has in steps[ost.name]
        ],
        "osts": {
            ost: {"before": {key: was for key, was, _ in changes}, "now": {key: has for key, _, has in changes}}
            for ost, changes in steps.items()
        },
    }


def of_servers(target: Target, request: Request, earlier: Json) -> Json:
    """What the servers answered to `prealloc_osts`, by OST. `earlier`: what was noted before. Raises Refusal."""
    fsname = lustre_of(target.spec)["fsname"]
    osts = Json()
    for server in request.get("osts", []):
        if not isinstance(server, dict) or not all(is_one(fsname, name) and _of_one(server[name]) for name in server):
            raise Refusal(f"a server answered {shown(server)}, which is no preallocation of {fsname}'s OSTs")
        osts.update(server)
    if not osts:
        raise Refusal(f"target {target.name}: no host of the inventory's group servers serves an ldiskfs OST of it")
    before, now = ({name: osts[name][key] for name in sorted(osts)} for key in ("before", "now"))
    first = earlier.get("before", {})
    return {"before": {name: {**before[name], **first.get(name, {})} for name in before}, "now": now}


def _of_one(value: object) -> bool:
    """Whether a server's answer about an OST has the form that `prealloc_osts` gives it."""
    if isinstance(value, dict):
        tables = list(map(value.get, ("before", "now")))
    else:
        tables = [None]
    return all(
        isinstance(table, dict) and all(isinstance(word, (str, int, list)) or word is None for word in table.values())
        for table in tables
    )
