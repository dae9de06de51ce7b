"""Tunables of Lustre clients: osc.* of each OST's connection and llite.* of the target's own mount, set and read back.

Every user of the client has them. So what was there first is noted on the host (fsage.host.system.settings).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from fsage.host.lustre import granted, mounts, params
from fsage.host.lustre.granted import TUNABLES, tunable
from fsage.host.system import privilege, settings
from fsage.host.system.settings import Holder
from fsage.model.errors import Refusal
from fsage.model.tuning import OF_LUSTRE
from fsage.model.typed import Json

Values = dict[str, str]  # by the parameter's full name


def now(mount: Path, fsname: str, *names: str) -> Values:
    """Values of tunables of one mount of a file system; without those that Lustre does not have. Raises Failure."""
    instance = mounts.instance(mount, fsname)
    osc = f"osc.{fsname}-OST*-osc-{instance}"
    llite = f"llite.{fsname}-{instance}"
    return params.get(*(f"{of}.{name}" for name in names for of in (osc, llite)))


def known(mount: Path, fsname: str) -> dict[str, str]:
    """The values of all tunables that a study may set, by name; '8 or 16' where connections differ. Raises Failure."""
    values: dict[str, set[str]] = {}
    for full, value in now(mount, fsname, *OF_LUSTRE).items():
        values.setdefault(tunable(full), set()).add(value)
    return {name: " or ".join(sorted(several)) for name, several in values.items()}


def tune(mount: Path, wanted: Mapping[str, object], holder: Holder, check: bool) -> tuple[bool, list[str], Json]:
    """Have a target set `wanted` (name -> whole number) and nothing else: what it set before goes back.

    Returns whether anything changed (or would), a sentence for each, and for each name `asked`, `before` and `now`, or
    `unsupported`.
    """
    fsname = holder["fsname"]
    noted: Json = {}
    sentences: list[str] = []
    values: Values = {}
    desired: Values = {}
    for name, value in sorted(wanted.items()):
        if name in OF_LUSTRE and (isinstance(value, bool) or not isinstance(value, int)):
            raise Refusal(f"tuning: {name} is {value!r}: a whole number is wanted, as Lustre gives it back")
        has = now(mount, fsname, name) if name in OF_LUSTRE else {}
        if has:
            why = privilege.unavailable_because()
        else:
            why = f"neither osc nor llite of {fsname} has it"
        if why:
            noted[name] = {"asked": value, "unsupported": why}
            sentences.append(f"{name}: unsupported, {why}")
            continue
        noted[name] = {"asked": value, "before": has, "now": has}
        values |= has
        desired |= dict.fromkeys(has, str(value))
        sentences += words(name, has, {full: str(value) for full in has if has[full] != str(value)}) or [
            f"{name}: {value} (unchanged)"
        ]
    stale = _stale(holder, desired)
    if check:
        changed = bool(stale) or any(values[full] != value for full, value in desired.items())
        return (
            changed,
            [*sentences, *(f"{name}: would be put back" for name in sorted(set(map(tunable, stale))))],
            noted,
        )
    if desired or stale:
        steps = granted.tune(fsname, holder, desired)
    else:
        steps = []
    firsts = settings.notes(TUNABLES.name)
    for entry in noted.values():
        if "unsupported" not in entry:
            entry["before"] = {
                full: firsts.get(full, {}).get("first", value) for full, value in entry["before"].items()
            }
            entry["now"] = {full: desired[full] for full in entry["now"]}  # as read back
    return bool(steps), [*sentences, *put_back_words(step for step in steps if step[0] in stale)], noted


def put_back(holder: Holder, check: bool = False) -> list[str]:
    """Let go of all that a target set on this host; a sentence for each tunable that changed by that.

    Connections that ended since are left out: after a new mount they have other names and Lustre's own values.
    """
    if not _stale(holder, {}):
        return []
    if check:
        return put_back_words(list(step) for step in settings.change(holder, TUNABLES, {}, check=True))
    return put_back_words(granted.tune(holder["fsname"], holder, {}))


def _stale(holder: Holder, desired: Mapping[str, str]) -> list[str]:
    """The tunables that a target holds, and wants no more."""
    held = {full for full, entry in settings.notes(TUNABLES.name).items() if settings.of(holder, entry)}
    return sorted(held - set(desired))


def put_back_words(steps: Iterable[list[str]]) -> list[str]:
    """A sentence for each tunable of which connections got another value."""
    sentences: list[str] = []
    every = sorted(steps)
    for name in sorted({tunable(full) for full, *_ in every}):
        of_name = [step for step in every if tunable(step[0]) == name]
        sentences += words(name, {full: was for full, was, _ in of_name}, {full: value for full, _, value in of_name})
    return sentences


def words(name: str, values: Values, wanted: Mapping[str, str]) -> list[str]:
    """What changes: 'max_rpcs_in_flight: 8 -> 256 at 6 connections'; none where nothing does.

    >>> words("x", {"osc.a": "8", "osc.b": "8", "osc.c": "4"}, {"osc.a": "2", "osc.b": "2"})
    ['x: 8 -> 2 at 2 connections']
    """
    steps = Counter(f"{values[full]} -> {value}" for full, value in wanted.items())
    joined = ", ".join(f"{step} at {count} connections" for step, count in steps.items())
    if joined:
        return [f"{name}: {joined}"]
    return []
