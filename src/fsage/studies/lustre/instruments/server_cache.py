"""The cache of Lustre's servers on ZFS: `primarycache` of each OST's dataset, set for a cell and restored after it.

`none` caches nothing in the ARC, `metadata` no data (zfsprops(7)). A cell's files are written after it was set, so
nothing of them is ever cached. A dataset keeps its properties over reboots, and so does the note of the former value
(fsage.host.system.settings). An OST on ldiskfs has no such property.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from fsage.api.helper import settings
from fsage.api.host import Instrument, Visit, run
from fsage.api.model import Cell, Failure, Json, Phase, Spec
from fsage.api.target import SERVERS_KEPT, Request, declaration, holder_of

from ..helper import lctl
from ..model import lustre_of

PROPERTY = "primarycache"


class ServerCache(Instrument):
    """Sets the cache of every server while a cell runs whose phases want that; each phase has the values as read back.

    They are on record by server and dataset.
    """

    name = "server_cache"
    remote: ClassVar = {"server_cache": lambda host, setting=None: serve(host.spec, setting)}

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        self.values: Json = {}

    @staticmethod
    def undo(spec: Spec) -> None:
        put_back(spec)

    def unsupported(self, cell: Cell) -> str | None:
        setting = setting_of(cell)
        if setting == SERVERS_KEPT:
            return None
        front = f"server_cache {setting}: "
        served = self.hosts.ask_servers(do="server_cache")
        if not served:
            return f"{front}the inventory's group `servers` names no host"
        ldiskfs = [ost for server in served.values() for ost in server["ldiskfs"]]
        if ldiskfs:
            return f"{front}{lctl.names(ldiskfs)} is on ldiskfs, and {PROPERTY} is a property of ZFS"
        if not any(server["zfs"] for server in served.values()):
            return f"{front}none of {lctl.names(list(served))} serves an OST on ZFS"
        return None

    @contextmanager
    def around_cell(self, cell: Cell) -> Iterator[Json]:
        setting = setting_of(cell)
        if setting == SERVERS_KEPT:
            yield {}
            return
        try:
            answers = self.hosts.ask_servers(do="server_cache", setting=setting)
            self.values = {name: answer["now"] for name, answer in answers.items()}
            yield {}
        finally:
            self.values = {}
            self.hosts.ask_servers(do="server_cache", setting=SERVERS_KEPT)

    @contextmanager
    def around_phase(self, phase: Phase, cell: Cell) -> Iterator[Json]:
        yield self.values


def setting_of(cell: Cell) -> str:
    """The setting that a cell's phases want: kept, or a value of the property."""
    return next((phase["server_cache"] for phase in cell["phases"] if "server_cache" in phase), SERVERS_KEPT)


# On a server


def serve(spec: Spec, setting: str | None) -> dict[str, object]:
    """Set the cache of this server's OSTs, or restore it where `setting` is kept; None: only list the OSTs.

    Returns `ldiskfs` (OSTs), `zfs` (datasets) and `now` (dataset -> value as read back). Raises Failure; what could not
    be restored stays noted.
    """
    if setting == SERVERS_KEPT:
        return {"proof": put_back(spec), "now": {}}
    fsname = lustre_of(spec)["fsname"]
    ldiskfs, zfs = (lctl.get(f"osd-{kind}.{fsname}-OST*.mntdev") for kind in ("ldiskfs", "zfs"))
    datasets = sorted(zfs.values())
    if setting and zfs:
        wanted = {dataset: {"value": setting, "source": "local"} for dataset in datasets}
        settings.change(holder_of(spec), DATASETS, wanted)
    now = dict.fromkeys(datasets, setting) if setting else {}
    return {"ldiskfs": [name.split(".")[1] for name in ldiskfs], "zfs": datasets, "now": now}


def put_back(spec: Spec, check: bool = False) -> list[str]:
    """Restore what a target set on this server; a sentence for each dataset. Raises Failure."""
    holder = holder_of(spec)
    names = settings.held(holder, DATASETS.name)
    settings.change(holder, DATASETS, {}, check=check)
    return [f"{dataset}: {PROPERTY} is {_words(_read(dataset))}" for dataset in names]


def server_cache_back(declared: Mapping[str, object], request: Request, check: bool) -> dict[str, object]:
    """The verb `server_cache_back`: restore what a killed command left; the release uses it too."""
    proof = put_back(declaration.complete(declared), check)
    if check or not proof:
        if proof:
            sentence = "would put back: " + "; ".join(proof)
        else:
            sentence = "no cache of a server to put back here"
        return {"changed": bool(proof), "msg": sentence, "proof": []}
    return {"changed": True, "msg": "; ".join(proof), "proof": proof}


def _put(values: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Set datasets and read them back; where one fails, those before it are restored. Raises Failure."""
    touched: list[str] = []
    try:
        for dataset, wanted in values.items():
            touched.append(dataset)
            _set(dataset, wanted)
    except Failure:
        for dataset in reversed(touched):
            if _read(dataset) != before[dataset]:
                _set(dataset, before[dataset])
        raise


DATASETS = settings.Kind("datasets", lambda names: {name: _read(name) for name in sorted(names)}, _put)


def _set(dataset: str, wanted: Mapping[str, str]) -> None:
    run(_command(dataset, **wanted))
    now = _read(dataset)
    if now != wanted:
        raise Failure(f"{dataset}: requested {PROPERTY}={_words(wanted)}, `zfs get` shows {_words(now)}")


def _words(property_now: Mapping[str, str]) -> str:
    return f"{property_now['value']} ({property_now['source']})"


def _read(dataset: str) -> dict[str, str]:
    output = run(["zfs", "get", "-H", "-o", "value,source", PROPERTY, dataset]).stdout
    value, _, source = output.strip().partition("\t")
    return {"value": value, "source": source}


def _command(dataset: str, value: str, source: str) -> list[str]:
    """The command that gives a dataset its property: set where it is of the dataset itself, else inherited."""
    if source == "local":
        return ["zfs", "set", f"{PROPERTY}={value}", dataset]
    return ["zfs", "inherit", *(["-S"] if source == "received" else []), PROPERTY, dataset]
