"""The preallocation that was noted when a target was tuned, and whether its servers still have it.

The verbs of tune_prealloc.yml: how much the servers of a target give a file at a time.

On Lustre it is set on the servers (`prealloc_osts`), and the launcher notes what they have (`prealloc`), for all that
is measured later. Where the file system itself has it (XFS) the launcher sets it, and whoever mounts the target
has it again. Elsewhere there is nothing to set, and that is noted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from fsage.base import Failure, Json, JsonView, Refusal
from fsage.base.message import shown
from fsage.host.lustre import ldiskfs
from fsage.host.lustre.ldiskfs import read, settings_in, size_words
from fsage.host.lustre.servers import is_one
from fsage.host.stores import filesystems
from fsage.host.stores.filesystem import Preallocation
from fsage.host.system import files, places
from fsage.host.targets import claims, lease
from fsage.host.targets.kinds import Servers
from fsage.host.targets.opening import opened
from fsage.host.targets.target import Target
from fsage.model.declaration import complete, fsname_of, home_of
from fsage.model.request import Request
from fsage.model.structure import Step
from fsage.model.tuning import PREALLOCATION

TABLE = "prealloc_table"
SHOWN = 3


def of(target: Target) -> Json | None:
    """What tune_prealloc.yml noted of a target."""
    return claims.complete_tunables(target.home).get(PREALLOCATION)


def size_bytes(target: Target) -> int:
    """Bytes that the file system is to give a file at a time; 0: its own choice."""
    return int((of(target) or {}).get("bytes", 0))


def verify_step(target: Target, step: Step) -> None:
    """`Refusal` unless the servers preallocate as much as the step needs to lay out its files."""
    wanted = step.server_preallocation_bytes()
    if not target.has_osts or wanted is None:
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


NOTHING = (
    "nothing is requested, and nothing was before: give tune_prealloc_size (such as 4MiB), tune_prealloc_table or "
    "tune_prealloc_group"
)
OF = {"prealloc_table": {"size", "table"}, "mb_last_group": {"group"}}  # what of a server each of them asks for
OF_A_DIRECTORY = "nothing is known of the file system below a directory"


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
            f"{ost.name} ({ost.device}): {key} {_step(was, has)}" for ost in osts for key, was, has in steps[ost.name]
        ],
        "osts": {
            ost: {"before": {key: was for key, was, _ in changes}, "now": {key: has for key, _, has in changes}}
            for ost, changes in steps.items()
        },
    }


def prealloc(spec: dict[str, object], request: Request, check: bool) -> dict[str, object]:
    """Set `request["prealloc"]` where the launcher can, and note it; the servers' answers are under `osts`."""
    target = opened(spec, request)
    with contextlib.nullcontext() if check else lease.held(target.home, request):
        return _tune(target, request, check)


def _tune(target: Target, request: Request, check: bool) -> dict[str, object]:
    requested = request["prealloc"]
    path = target.home / "tunables.json"
    noted = files.read_json(path) or {}
    earlier = noted.get(PREALLOCATION)
    restore = requested["state"] == "restored"
    wanted = settings_in(requested) or (earlier or {}).get("asked") or {}
    if not wanted and not restore:
        raise Refusal(f"target {target.name}: {NOTHING}")
    entry: dict[str, object] = {"asked": wanted}
    size_bytes = read(wanted).size_bytes
    filesystem = filesystems.get(target.filesystem)
    fsname = fsname_of(target.spec)
    if fsname:
        entry |= {} if restore else _of_servers(target, fsname, request, earlier or {})
    elif filesystem and filesystem.preallocation:
        if not size_bytes and not restore:
            raise Refusal(
                f"target {target.name}: {filesystem.title} has one size and no table or pointer: give "
                "tune_prealloc_size"
            )
        size_bytes = 0 if restore else size_bytes or 0
        words = filesystem.preallocation.words
        entry |= {"bytes": size_bytes, "now": words(size_bytes)}
        entry["before"] = (earlier or {}).get("before") or words(filesystem.preallocation.size_at(target.mounts[0]))
    else:
        entry |= {"now": None, "unsupported": filesystem.no_preallocation if filesystem else OF_A_DIRECTORY}
    left = {key: value for key, value in noted.items() if key != PREALLOCATION}
    now = left if restore else {**left, PREALLOCATION: entry}
    changed = now != noted
    if filesystem and filesystem.preallocation:
        changed |= not filesystem.preallocation.in_place(target.mounts, target.mount_options(), size_bytes or 0)
        if changed and not check:
            _put(target, filesystem.preallocation, size_bytes or 0, now)
    elif changed and not check:
        files.write_json(path, now)
    return {
        "changed": changed,
        "msg": f"preallocation of target {target.name}: {_step(_words(earlier), _words(now.get(PREALLOCATION)))}",
        PREALLOCATION: now.get(PREALLOCATION),
    }


def _of_servers(target: Target, fsname: str, request: Request, earlier: Json) -> dict[str, object]:
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


def _put(target: Target, settable: Preallocation, size_bytes: int, now: dict[str, object]) -> None:
    """Set the preallocation of every directory, and mount with the option that belongs to it."""
    path = target.home / "tunables.json"
    noted = files.read_json(path) or {}
    files.write_json(path, now)
    try:
        settable.give(target.mounts[0], size_bytes)
    except Failure as why:  # larger than half an allocation group, say
        files.write_json(path, noted) if noted else files.remove(path)
        raise Refusal(f"{why}; nothing was changed") from why
    for mount in target.mounts:
        for directory in settable.directories(mount):
            settable.give(directory, size_bytes)
    target.remount()  # with the mount option
    if not settable.in_place(target.mounts, options := target.mount_options(), size_bytes):
        raise Failure(f"target {target.name}: requested {settable.words(size_bytes)}, mounted with {options}")


def _words(entry: Json | None) -> str:
    if entry is None:
        return "as it is by itself"
    requested = ", ".join(f"{key} {value}" for key, value in entry["asked"].items())
    if "unsupported" in entry:
        return f"{requested} ({entry['unsupported']})"
    return requested


def _step(before: object, now: object) -> str:
    if before == now:
        return f"{before} (unchanged)"
    return f"{before} -> {now}"
