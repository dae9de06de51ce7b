"""Settings of Lustre on a host that a study does not name, and that are in force all the same."""

from __future__ import annotations

import os
from pathlib import Path

from fsage.api.helper import settings
from fsage.api.model import Json, JsonView, Spec
from fsage.api.target import declaration, holder_of, noted_tunables

from ..helper import lctl
from ..helper.lctl import TUNABLES, tunable
from ..host import clients, ldiskfs
from . import server_cache


def of_client(spec: Spec, place: Path, fsname: str, tuning: JsonView) -> list[str]:
    """A sentence for each setting of this client, for the mount of a place, that is not as a study's `tuning` says."""
    holder: settings.Holder = {**holder_of(spec), "fsname": fsname}
    sentences = []
    if settings.notes(TUNABLES.name):
        of_mount = f"-{clients.instance_of(place, fsname)}."
        for name, entry in _others(TUNABLES.name, holder):
            if of_mount in name and str(tuning.get(tunable(name))) != entry["set"][-1]["value"]:
                sentences += _sentence(name, entry, lctl.get(name).get(name), "the study does not name it")
    return [*sentences, *_not_as_named(spec, place, fsname, tuning)]


def of_server(spec: Spec) -> list[str]:
    """A sentence for each setting of this server's OSTs that others have set."""
    holder = holder_of(spec)
    why = f"target {spec['name']} has not set it"
    sentences = []
    for name, entry in _others(ldiskfs.KIND, holder):
        if not _holds(holder, entry):
            sentences += _sentence(name, entry, _text(Path(name)), why)
    for name, entry in _others(server_cache.DATASETS.name, holder):
        if not _holds(holder, entry):
            sentences += _sentence(name, entry, server_cache.DATASETS.read([name])[name], why)
    return sentences


def _not_as_named(spec: Spec, place: Path, fsname: str, tuning: JsonView) -> list[str]:
    """What the study names, and is not set: somebody changed it since, or a mount is new."""
    noted = noted_tunables(declaration.home_of(spec))
    names = [name for name in sorted(tuning) if "unsupported" not in noted.get(name, {})]
    if not names:
        return []
    values = clients.known_tunables(place, fsname, names)
    return [
        f"{name} of {os.uname().nodename} is {values.get(name, 'not there')}, and the study names {tuning[name]}: "
        "tune_clients.yml sets it"
        for name in names
        if values.get(name) != str(tuning[name])
    ]


def _others(kind: str, holder: settings.Holder) -> list[tuple[str, Json]]:
    """What is noted of a kind on the holder's file system."""
    noted = sorted(settings.notes(kind).items())
    return [(name, entry) for name, entry in noted if entry["set"][-1]["fsname"] == holder["fsname"]]


def _holds(holder: settings.Holder, entry: JsonView) -> bool:
    """Whether a holder wants the value that is in force."""
    in_force = entry["set"][-1]["value"]
    return any(settings.same(holder, other) and other["value"] == in_force for other in entry["set"])


def _sentence(name: str, entry: Json, now: object, why: str) -> list[str]:
    """A sentence for a setting that still has the noted value: a new mount has Lustre's own again."""
    if now == entry["first"]:
        return []
    return [
        f"{name} of {os.uname().nodename} is {_shown(entry['set'][-1]['value'])}, was {_shown(entry['first'])}, and "
        f"{why}: {settings.described(entry['set'][-1])} noted it. It goes back when its run ends, or by its release"
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
