"""The cache of Lustre's servers on ZFS: `primarycache` of each OST's dataset, set for a cell and restored after it.

`none` caches nothing in the ARC, `metadata` no data (zfsprops(7)). A cell's files are written after it was set, so
nothing of them is ever cached. A dataset keeps its properties over reboots. The former value is therefore noted first,
in `<home>/server_cache.json` of the server, until it is restored. An OST on ldiskfs has no such property.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from fsage.host.lustre import params
from fsage.host.system import files
from fsage.host.system.shell import run
from fsage.host.targets.kinds import Servers
from fsage.model.caches import SERVERS_KEPT
from fsage.model.declaration import complete, home_of, lustre_of
from fsage.model.errors import Failure
from fsage.model.request import Phase, Request
from fsage.model.target import Spec

PROPERTY = "primarycache"


# On the launcher


def unavailable_because(hosts: Servers, phases: Sequence[Phase]) -> str | None:
    """Why the servers' cache cannot be set as a cell's phases want; None when it can, or none wants it."""
    setting = setting_of(phases)
    if setting == SERVERS_KEPT:
        return None
    front = f"server_cache {setting}: "
    served = hosts.ask_servers(do="server_cache")
    if not served:
        return f"{front}the inventory's group `servers` names no host"
    if ldiskfs := [ost for server in served.values() for ost in server["ldiskfs"]]:
        return f"{front}{params.names(ldiskfs)} is on ldiskfs, and {PROPERTY} is a property of ZFS"
    if not any(server["zfs"] for server in served.values()):
        return f"{front}none of {params.names(list(served))} serves an OST on ZFS"
    return None


def setting_of(phases: Sequence[Phase]) -> str:
    """The setting that a cell's phases want: kept, or a value of the property."""
    return next((phase["server_cache"] for phase in phases if "server_cache" in phase), SERVERS_KEPT)


@contextmanager
def held(hosts: Servers, phases: Sequence[Phase]) -> Iterator[dict[str, dict[str, str]]]:
    """Set the cache of every server while a cell runs; server -> dataset -> value as read back. Raises Failure."""
    setting = setting_of(phases)
    if setting == SERVERS_KEPT:
        yield {}
        return
    try:
        yield {name: answer["now"] for name, answer in hosts.ask_servers(do="server_cache", setting=setting).items()}
    finally:
        hosts.ask_servers(do="server_cache", setting=SERVERS_KEPT)


# On a server


def serve(spec: Spec, setting: str | None) -> dict[str, object]:
    """Set the cache of this server's OSTs, or restore it where `setting` is kept; None: only list the OSTs.

    Returns `ldiskfs` (OSTs), `zfs` (datasets) and `now` (dataset -> value as read back). Raises Failure; what could not
    be restored stays noted.
    """
    if setting == SERVERS_KEPT:
        return {"proof": put_back(spec), "now": {}}
    fsname = lustre_of(spec)["fsname"]
    ldiskfs, zfs = (params.get(f"osd-{kind}.{fsname}-OST*.mntdev") for kind in ("ldiskfs", "zfs"))
    now = {}
    if setting and zfs:
        path = _note_of(spec)
        before = {dataset: _read(dataset) for dataset in sorted(zfs.values())}
        files.write_json(path, {**before, **(files.read_json(path) or {})})  # what was there first is what is put back
        for dataset in before:
            run(["zfs", "set", f"{PROPERTY}={setting}", dataset])
            now[dataset] = _read(dataset)["value"]
            if now[dataset] != setting:
                raise Failure(f"{dataset}: requested {PROPERTY}={setting}, `zfs get` shows {now[dataset]}")
    return {"ldiskfs": [name.split(".")[1] for name in ldiskfs], "zfs": sorted(zfs.values()), "now": now}


def put_back(spec: Spec) -> list[str]:
    """Restore what is noted on this server; a sentence for each dataset. Raises Failure."""
    path, proof = _note_of(spec), []
    for dataset, before in (files.read_json(path) or {}).items():
        if _read(dataset) != before:
            run(_back(dataset, **before))
            if (now := _read(dataset)) != before:
                raise Failure(f"{dataset}: {PROPERTY} was {before}, and is {now} after it was put back")
        proof.append(f"{dataset}: {PROPERTY} is {before['value']} ({before['source']}), as before")
    files.remove(path)
    return proof


def server_cache_back(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """The verb `server_cache_back`: restore what a killed command left; the release uses it too."""
    spec = complete(declared)
    noted = files.read_json(_note_of(spec)) or {}
    if check or not noted:
        sentence = (
            f"would put {PROPERTY} of {', '.join(noted)} back" if noted else "no cache of a server to put back here"
        )
        return {"changed": bool(noted), "msg": sentence, "proof": []}
    proof = put_back(spec)
    return {"changed": True, "msg": "; ".join(proof), "proof": proof}


def _note_of(spec: Spec) -> Path:
    return home_of(spec) / "server_cache.json"


def _read(dataset: str) -> dict[str, str]:
    output = run(["zfs", "get", "-H", "-o", "value,source", PROPERTY, dataset]).stdout
    value, _, source = output.strip().partition("\t")
    return {"value": value, "source": source}


def _back(dataset: str, value: str, source: str) -> list[str]:
    """The command that restores a property: set where it was set on the dataset itself, else inherited."""
    if source == "local":
        return ["zfs", "set", f"{PROPERTY}={value}", dataset]
    return ["zfs", "inherit", *(["-S"] if source == "received" else []), PROPERTY, dataset]
