"""Settings of this host that were changed: each is noted before, so that it can be undone.

The journal of a target (`<home>/<target>/journal.json`) has what the next command undoes, such as its device's
scheduler. A reboot voids it.

Settings that others share with a target have a note a host: what was there first, and who has set what since. A
setting is noted before it is set: its first value, and each holder with the value that he wants. The value of the last
holder counts. When he lets go, that of the holder before him comes back, and after the last holder the first value. So
it does not matter in which order targets are tuned and released. Everybody may read the note, because a cell is valid
only under settings that its study names.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from fsage.base import Failure, Json, JsonView, in_words
from fsage.host.system import files, kernel, places

Entry = Json
Undo = Callable[[Entry], str]
"""Undoes a noted change; a sentence on what was verified. Raises Failure."""


class Journal:
    """Changes since boot that can be undone, in a file: each is an entry, noted before it is made."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, *kinds: str) -> list[Entry]:
        """The noted changes, oldest first; of these kinds, where any are named."""
        noted = files.read_json(self.path)
        if not noted or noted["boot_id"] != files.boot_id():
            return []
        return [entry for entry in noted["entries"] if not kinds or entry["kind"] in kinds]

    def note(self, entry: Entry) -> None:
        """Note a change before it is made, unless it is noted already."""
        noted = self.entries()
        if entry not in noted:
            self._write([*noted, entry])

    def strike(self, entry: Entry) -> None:
        """Remove the note of a change that was undone."""
        self._write([other for other in self.entries() if other != entry])

    def undo(self, how: Mapping[str, Undo]) -> list[str]:
        """Undo the noted changes whose kinds are in `how`, newest first; a sentence for each that was verified.

        Raises Failure; what could not be undone stays noted.
        """
        proof = []
        for entry in reversed(self.entries()):
            if entry["kind"] in how:
                proof.append(how[entry["kind"]](entry))
                self.strike(entry)
        if not self.entries():
            files.remove(self.path)  # void entries of an earlier boot
        return proof

    def _write(self, entries: list[Entry]) -> None:
        if entries:
            files.write_json(self.path, {"boot_id": files.boot_id(), "entries": entries})
        else:
            files.remove(self.path)


def journal_of(home: Path) -> Journal:
    """The journal in a target's home."""
    return Journal(home / "journal.json")


NOTE = Path("/var/lib/fsage/settings.json")
READABLE_FOLDER = 0o755
READABLE = 0o644

Values = Json
"""Values by the setting's name, as JSON; None: nothing that could be restored."""


class Holder(TypedDict):
    """For whom a setting is set: a target of a user, on a file system, and the run that did it (None: by hand)."""

    user: int
    target: str
    home: str
    fsname: str
    run: Any


class Kind(NamedTuple):
    """Settings of one kind. `read` leaves out what is not there (any more); `put` sets and reads back, or restores."""

    name: str
    read: Callable[[Collection[str]], Values]
    put: Callable[[JsonView, JsonView], None]


class Step(NamedTuple):
    """A setting that was changed: its value then, and now."""

    name: str
    before: Any
    now: Any


def notes(kind: str) -> Json:
    """What is noted of settings of a kind: {setting: {"first": value, "set": [{"value", "since", **Holder}]}}.

    Raises Failure where the note cannot be read or is no note: then it is not known what was there first.
    """
    return _read().get(kind, {})


def change(
    holder: Holder, kind: Kind, wanted: JsonView, drop: Collection[str] | None = None, check: bool = False
) -> list[Step]:
    """Set `wanted` for a holder, and let go of `drop` (None: of all else that he holds); what changed by that.

    With `check` nothing is changed. Raises Failure; then settings and note are as they were. Who holds nothing and
    wants nothing needs no rights: the note's folder, which is root's, is not made.
    """
    if not wanted and not held(holder, kind.name):
        return []
    with contextlib.nullcontext() if check else _locked():
        whole = _read()
        before: Json = whole.get(kind.name, {})
        own = set(_held(holder, before))
        dropped = (own if drop is None else own & set(drop)) - set(wanted)
        if not wanted and not dropped:
            return []
        now = kind.read({*wanted, *dropped})
        after = dict(before)
        for name in dropped:
            others = [other for other in before[name]["set"] if not same(holder, other)]
            after[name] = {**before[name], "set": others}
        for name in set(wanted) & set(now):
            entry = before.get(name, {"first": now[name], "set": []})
            after[name] = {**entry, "set": list(_with(entry["set"], holder, wanted[name]))}
        differs = {}
        for name in sorted({*wanted, *dropped} & set(now)):
            listed = after[name]["set"]
            goal = listed[-1]["value"] if listed else after[name]["first"]
            if goal is not None and goal != now[name]:
                differs[name] = goal
        if not check:
            _write({**whole, kind.name: {**after, **{name: before[name] for name in dropped}}})
            try:
                if differs:
                    kind.put(differs, now)
            except BaseException:
                _write(whole)
                raise
            _write({**whole, kind.name: {name: entry for name, entry in after.items() if entry["set"]}})
    return [Step(name, now[name], value) for name, value in differs.items()]


def held(holder: Holder, kind: str) -> list[str]:
    """The settings of a kind that a holder has set."""
    return _held(holder, notes(kind))


def _held(holder: Holder, noted: JsonView) -> list[str]:
    return sorted(name for name, entry in noted.items() if any(same(holder, other) for other in entry["set"]))


def holders(kind: str) -> list[Holder]:
    """All who hold settings of a kind, each once."""
    found: list[Holder] = []
    for entry in notes(kind).values():
        for other in entry["set"]:
            if not any(same(other, known) for known in found):
                found.append(other)
    return found


def described(other: JsonView) -> str:
    """A noted holder in words."""
    run = f", run {other['run']['run']}" if other["run"] else ""
    return f"target {other['target']} of user {other['user']} ({other['home']}{run}, since {other['since']})"


def same(holder: JsonView, other: JsonView) -> bool:
    """Whether both are the same target of the same user."""
    return all(holder[key] == other[key] for key in ("user", "home"))


def _with(listed: list[Any], holder: Holder, value: Any) -> Iterator[Any]:
    """The holders with one more; who holds the same value already keeps his place."""
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    kept = False
    for other in listed:
        if not same(holder, other):
            yield other
        elif other["value"] == value:
            kept = True
            yield {**other, **holder}
    if not kept:
        yield {**holder, "value": value, "since": since}


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Hold the note's folder, which is removed when nothing is left in it."""
    while True:
        with places.opened(NOTE.parent, READABLE_FOLDER) as folder:
            os.fchmod(folder, READABLE_FOLDER)
            for last in kernel.attempts(files.PATIENCE_S, 0.01):
                if files.lock(folder):
                    break
                if last:
                    raise Failure(
                        f"{NOTE.parent} is locked by {files.describe_holders(folder)}: no setting was changed"
                    )
            if not _is(folder):  # who locked it before removed it
                continue
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # a target has its home there
                    NOTE.parent.rmdir()
            return


def _is(folder: int) -> bool:
    try:
        now = os.stat(NOTE.parent)
    except FileNotFoundError:
        return False
    return os.path.samestat(now, os.fstat(folder))


def _read() -> Json:
    try:
        return files.read_json(NOTE) or {}
    except PermissionError:  # a user, where root keeps targets and has noted nothing: the first note opens the folder
        return {}
    except (OSError, Failure) as error:
        raise Failure(
            f"{NOTE} cannot be read ({in_words(error)}), so it is not known what settings of {os.uname().nodename} "
            "were before fsage set them; nothing was touched"
        ) from error


def _write(whole: JsonView) -> None:
    left = {kind: entries for kind, entries in whole.items() if entries}
    if left:
        files.write_json(NOTE, left, READABLE)
    else:
        files.remove(NOTE)
