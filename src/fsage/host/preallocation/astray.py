"""Settings of a host that a study does not name, and that are in force all the same: somebody else has set them.

A cell that was measured under such a setting is not valid. It is told which setting, which value, and who noted it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fsage.host.lustre import mounts, params, servercache, tunables
from fsage.host.lustre.granted import TUNABLES, tunable
from fsage.host.preallocation import ldiskfs
from fsage.host.system import mounting, settings
from fsage.host.system.settings import Holder
from fsage.host.targets import lease, tuned
from fsage.host.targets.target import Target
from fsage.model.target import Spec


def of_client(target: Target, tuning: Mapping[str, object]) -> list[str]:
    """A sentence for each setting of this client that is not as the study's `tuning` says."""
    if not (fsname := _fsname(target)):
        return target.astray(tuning)
    mount = target.mounts[0]
    holder: Holder = {**lease.holder_of(target.spec), "fsname": fsname}
    wrong = []
    if settings.notes(TUNABLES.name):
        of_mount = f"-{mounts.instance(mount, fsname)}."
        for name, entry in _others(TUNABLES.name, holder):
            if of_mount in name and str(tuning.get(tunable(name))) != entry["set"][-1]["value"]:
                wrong.append((name, entry, params.get(name).get(name)))
    return [*_sentences(wrong, "the study does not name it"), *_not_as_named(target, fsname, tuning)]


def of_server(spec: Spec) -> list[str]:
    """A sentence for each setting of this server's OSTs that others have set."""
    holder = lease.holder_of(spec)
    wrong = []
    for name, entry in _others(ldiskfs.KIND, holder):
        if not _holds(holder, entry):
            wrong.append((name, entry, _text(Path(name))))
    for name, entry in _others(servercache.DATASETS.name, holder):
        if not _holds(holder, entry):
            wrong.append((name, entry, servercache.DATASETS.read([name])[name]))
    return _sentences(wrong, f"target {spec['name']} has not set it")


def _not_as_named(target: Target, fsname: str, tuning: Mapping[str, object]) -> list[str]:
    """What the study names, and is not set: somebody changed it since, or a mount is new."""
    noted = tuned.read(target.home)
    names = [name for name in sorted(tuning) if "unsupported" not in noted.get(name, {})]
    if not names:
        return []
    values: dict[str, set[str]] = {}
    for full, value in tunables.now(target.mounts[0], fsname, *names).items():
        values.setdefault(tunable(full), set()).add(value)
    return [
        f"{name} of {os.uname().nodename} is {' or '.join(sorted(values.get(name, {'not there'})))}, and the study "
        f"names {tuning[name]}: tune_clients.yml sets it"
        for name in names
        if values.get(name) != {str(tuning[name])}
    ]


def _fsname(target: Target) -> str | None:
    """The Lustre file system that a target is on, a directory on it too."""
    if target.spec["lustre"]:
        return target.spec["lustre"]["fsname"]
    return None if target.own_stores else mounts.fsname_of(mounting.mount_of(target.mounts[0]))


def _others(kind: str, holder: Holder) -> list[tuple[str, Any]]:
    """What is noted of a kind on the holder's file system."""
    noted = sorted(settings.notes(kind).items())
    return [(name, entry) for name, entry in noted if entry["set"][-1]["fsname"] == holder["fsname"]]


def _holds(holder: Holder, entry: Mapping[str, Any]) -> bool:
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
    return str(value["value"]) if isinstance(value, dict) else str(value)


def _text(path: Path) -> object:
    try:
        text = path.read_text("ascii", "replace").strip()
    except OSError as error:
        return error  # who may not read it takes the note's word
    return int(text) if text.isdigit() and path.name != "prealloc_table" else text


def first(sentences: list[str]) -> str | None:
    """The first of them, with the number of the others; None where there is none."""
    if not sentences:
        return None
    return sentences[0] + (f" (and {len(sentences) - 1} more settings)" if sentences[1:] else "")
