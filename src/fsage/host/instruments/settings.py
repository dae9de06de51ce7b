"""Settings of a host that a study does not name, and that are in force all the same: somebody else has set them.

A cell that was measured under one is not valid. Its reason has the setting, its value, and who noted it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, cast

from fsage.base import Failure, Json, JsonView
from fsage.host.instruments import server_cache
from fsage.host.instruments.instrument import Instrument, Visit
from fsage.host.lustre import clients, lctl, ldiskfs, preallocation
from fsage.host.lustre.lctl import TUNABLES, tunable
from fsage.host.remote.connection import Lost, ask_all
from fsage.host.system import settings
from fsage.host.system.settings import Holder
from fsage.host.targets import claims, lease
from fsage.host.targets.target import OtherHost, Target
from fsage.layouts import machine
from fsage.model import declaration
from fsage.model.request import Cell, Request
from fsage.model.target import Spec
from fsage.model.tuning import PREALLOCATION


def settings_there(host: OtherHost, tuning: Json) -> Json:
    """A sentence for each setting of a host that a study with this `tuning` does not name, under `astray`."""
    return {"astray": of_client(host.target, tuning) if host.target else of_server(host.spec)}


class Settings(Instrument):
    """Under which settings cells are measured: what was tuned, and that nobody else has set anything.

    No cell is measured where the servers are not tuned as noted: to build the state again would not change that.
    """

    remote: ClassVar = {
        "settings": settings_there,
        "prealloc": lambda host: {"tables": ldiskfs.tables_of(host.spec)},
    }

    def __init__(self, visit: Visit) -> None:
        super().__init__(visit)
        self.noted = claims.complete_tunables(self.target.home)

    def conditions(self) -> Json:
        why = self._untuned()
        if why:
            raise Failure(f"no cell of state {self.visit.request.get('state')} was measured: {why}")
        return {"tunables": self.noted}

    def refused(self, cell: Cell) -> str | None:
        tuning = cast(Request, self.visit.request).get("tuning", {})
        try:
            asked = ask_all(self.hosts.remote_hosts, lambda _: {"do": "settings", "tuning": dict(tuning)})
            others = [sentence for answer in asked.values() for sentence in answer["astray"]]
            return first([*of_client(self.target, tuning), *others])
        except Lost:
            raise
        except Failure as why:
            return f"under which settings it is measured is not known: {why}"

    def failed_cell(self, cell: Cell) -> str | None:
        return self._untuned() or self.refused(cell)

    def _untuned(self) -> str | None:
        """Why the servers have another preallocation than was noted; None: the same, or none was set."""
        return preallocation.unavailable_because(self.hosts, self.noted.get(PREALLOCATION))


def of_client(target: Target, tuning: JsonView) -> list[str]:
    """A sentence for each setting of this client that is not as the study's `tuning` says."""
    fsname = _fsname(target)
    if not fsname:
        return target.astray(tuning)
    mount = target.mounts[0]
    holder: Holder = {**lease.holder_of(target.spec), "fsname": fsname}
    wrong = []
    if settings.notes(TUNABLES.name):
        of_mount = f"-{clients.instance_of(mount, fsname)}."
        for name, entry in _others(TUNABLES.name, holder):
            if of_mount in name and str(tuning.get(tunable(name))) != entry["set"][-1]["value"]:
                wrong.append((name, entry, lctl.get(name).get(name)))
    return [*_sentences(wrong, "the study does not name it"), *_not_as_named(target, fsname, tuning)]


def of_server(spec: Spec) -> list[str]:
    """A sentence for each setting of this server's OSTs that others have set."""
    holder = lease.holder_of(spec)
    wrong = []
    for name, entry in _others(ldiskfs.KIND, holder):
        if not _holds(holder, entry):
            wrong.append((name, entry, _text(Path(name))))
    for name, entry in _others(server_cache.DATASETS.name, holder):
        if not _holds(holder, entry):
            wrong.append((name, entry, server_cache.DATASETS.read([name])[name]))
    return _sentences(wrong, f"target {spec['name']} has not set it")


def _not_as_named(target: Target, fsname: str, tuning: JsonView) -> list[str]:
    """What the study names, and is not set: somebody changed it since, or a mount is new."""
    noted = claims.read_tunables(target.home)
    names = [name for name in sorted(tuning) if "unsupported" not in noted.get(name, {})]
    if not names:
        return []
    values: dict[str, set[str]] = {}
    for full, value in clients.tunables_now(target.mounts[0], fsname, *names).items():
        values.setdefault(tunable(full), set()).add(value)
    return [
        f"{name} of {os.uname().nodename} is {' or '.join(sorted(values.get(name, {'not there'})))}, and the study "
        f"names {tuning[name]}: tune_clients.yml sets it"
        for name in names
        if values.get(name) != {str(tuning[name])}
    ]


def _fsname(target: Target) -> str | None:
    """The Lustre file system that a target is on, a directory on it too."""
    declared = declaration.fsname_of(target.spec)
    if declared or target.own_stores:
        return declared
    return clients.fsname_of(machine.mount_of(target.mounts[0]))


def _others(kind: str, holder: Holder) -> list[tuple[str, Any]]:
    """What is noted of a kind on the holder's file system."""
    noted = sorted(settings.notes(kind).items())
    return [(name, entry) for name, entry in noted if entry["set"][-1]["fsname"] == holder["fsname"]]


def _holds(holder: Holder, entry: JsonView) -> bool:
    """Whether a holder wants the value that is in force."""
    in_force = entry["set"][-1]["value"]
    return any(settings.same(holder, other) and other["value"] == in_force for other in entry["set"])


def _sentences(wrong: Iterable[tuple[str, Any, object]], why: str) -> list[str]:
    """A sentence for each setting that still has the noted value: a new mount has Lustre's own again."""
    in_force = [(name, entry) for name, entry, now in wrong if now != entry["first"]]
    return [
        f"{name} of {os.uname().nodename} is {_shown(entry['set'][-1]['value'])}, was {_shown(entry['first'])}, and "
        f"{why}: {settings.described(entry['set'][-1])} noted it. It goes back when its run ends, or by its release"
        for name, entry in in_force
    ]


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return str(value["value"])
    return str(value)


def _text(path: Path) -> object:
    try:
        text = path.read_text("ascii", "replace").strip()
    except OSError as error:
        return error  # who may not read it takes the note's word
    if text.isdigit() and path.name != "prealloc_table":
        return int(text)
    return text


def first(sentences: list[str]) -> str | None:
    """The first of them, with the number of the others; None where there is none."""
    if not sentences:
        return None
    return sentences[0] + (f" (and {len(sentences) - 1} more settings)" if sentences[1:] else "")
