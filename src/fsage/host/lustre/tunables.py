"""Tunables of Lustre clients: osc.* of each OST's connection and llite.* of the mount, set and read back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from fsage.host.lustre import granted, params
from fsage.host.system import files, privilege
from fsage.model.errors import Failure, Refusal
from fsage.model.tuning import OF_LUSTRE, PREALLOCATION
from fsage.model.typed import Json

Values = dict[str, str]  # by the parameter's full name


def now(fsname: str, *names: str) -> Values:
    """Values of tunables at the client's connections to one file system; without those that Lustre does not have."""
    values = params.get(*(f"{kind}.{name}" for name in names for kind in (f"osc.{fsname}-OST*", f"llite.{fsname}-*")))
    ours = re.compile(rf"(?:osc\.{fsname}-OST|llite\.{fsname}-[0-9a-f]+\.)")  # `a-*` is of the file system a-b as well
    return {full: value for full, value in values.items() if ours.match(full)}


def known(fsname: str) -> dict[str, str]:
    """The values of all tunables that a study may set, by name; '8 or 16' where connections differ. Raises Failure."""
    values: dict[str, set[str]] = {}
    for full, value in now(fsname, *OF_LUSTRE).items():
        values.setdefault(full.rpartition(".")[2], set()).add(value)
    return {name: " or ".join(sorted(several)) for name, several in values.items()}


def put(fsname: str, name: str, wanted: Mapping[str, str], before: Values) -> None:
    """Set parameters and read them back. Before a Failure is raised, the values of `before` are restored.

    Lustre may take a value out of range at one OST and refuse it at the next. It may also clip or ignore it, with exit
    status 0. Names are given one by one, because a glob reaches the metadata server's connections as well.
    """
    why = None
    try:
        granted.tune(dict(wanted))
    except Failure as error:
        why = str(error)
    after = now(fsname, name)
    other = [full for full, value in wanted.items() if after.get(full) != value]
    if not why and not other:
        return
    granted.tune({full: before[full] for full in wanted if after.get(full) != before[full]})
    holds = ", ".join(f"{full} read back {after.get(full)}" for full in other[:3]) or "all were set"
    requested = ", ".join(sorted(set(wanted.values())))
    raise Failure(f"{name}: requested {requested}; {holds}{'; ' + why if why else ''}; put back to what was there")


def tune(fsname: str, wanted: Mapping[str, object], noted: Json, check: bool) -> tuple[bool, list[str]]:
    """Set `wanted` (name -> whole number); `noted` gets for each name `asked`, `before` and `now`, or `unsupported`.

    Returns whether anything changed (or would), and a sentence for each. The order is alphabetical: max_read_ahead_mb
    must be set before max_read_ahead_per_file_mb, which it limits.
    """
    changed, sentences = False, []
    for name, value in sorted(wanted.items()):
        if name in OF_LUSTRE and (isinstance(value, bool) or not isinstance(value, int)):
            raise Refusal(f"tuning: {name} is {value!r}: a whole number is wanted, as Lustre gives it back")
        values = now(fsname, name) if name in OF_LUSTRE else {}
        why = privilege.unavailable_because() if values else f"neither osc nor llite of {fsname} has it"
        if why:
            entry: dict[str, object] = {"asked": value, "unsupported": why}
            sentences.append(f"{name}: unsupported, {entry['unsupported']}")
        else:
            other = {full: str(value) for full, holds in values.items() if holds != str(value)}
            sentences.append(f"{name}: {words(values, other) if other else f'{value} (unchanged)'}")
            if other and not check:
                put(fsname, name, other, values)
                changed = True
            before = {**values, **noted.get(name, {}).get("before", {})}
            entry = {"asked": value, "before": before, "now": values if check else now(fsname, name)}
        if noted.get(name) != entry:
            noted[name] = entry
            changed = True
    return changed, sentences


def put_back(fsname: str, path: Path, check: bool = False) -> list[str]:
    """Restore the values that are noted in the file `path`, and remove the note; a sentence for each name.

    Connections that ended since are left out: after a new mount they have other names and Lustre's own values. The note
    of the servers' preallocation stays, which its own verb restores.
    """
    proof, noted = [], files.read_json(path) or {}
    for name, entry in sorted(noted.items()):
        values = now(fsname, name) if name in OF_LUSTRE and "before" in entry else {}
        other = {
            full: entry["before"][full] for full in values if entry["before"].get(full, values[full]) != values[full]
        }
        if other:
            proof.append(f"{name}: {words(values, other)}")
            if not check:
                put(fsname, name, other, values)
    if not check:
        kept = {name: entry for name, entry in noted.items() if name == PREALLOCATION}
        files.write_json(path, kept) if kept else files.remove(path)
    return proof


def words(values: Values, wanted: Mapping[str, str]) -> str:
    """What changes: '8 -> 256 at 6 connections'.

    >>> words({"osc.a": "8", "osc.b": "8", "osc.c": "4"}, {"osc.a": "2", "osc.b": "2"})
    '8 -> 2 at 2 connections'
    """
    steps = Counter(f"{values[full]} -> {value}" for full, value in wanted.items())
    return ", ".join(f"{step} at {count} connections" for step, count in steps.items())
