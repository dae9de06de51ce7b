"""The preallocation of servers: set by tune_prealloc.yml, and whether they still have it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fsage.base import Refusal
from fsage.host.system import files, places
from fsage.host.targets import lease
from fsage.host.targets.preallocation import NOTHING, read, settings_in, step_words
from fsage.model.declaration import complete, fsname_of, home_of
from fsage.model.request import Request

from . import ldiskfs
from .servers import is_one

TABLE = "prealloc_table"


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


def is_answer(fsname: str, server: object) -> bool:
    """Whether a server's answer about its OSTs has the form that `prealloc_osts` gives it."""
    return isinstance(server, dict) and all(is_one(fsname, name) and _of_one(server[name]) for name in server)


def _of_one(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return all(
        isinstance(table := value.get(key), dict)
        and all(isinstance(word, (str, int, list)) or word is None for word in table.values())
        for key in ("before", "now")
    )
