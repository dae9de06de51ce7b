"""What a target has set of tunables, noted in its home: `asked`, `before` and `now`, or `unsupported`, of each."""

from __future__ import annotations

from pathlib import Path

from fsage.host.system import files
from fsage.model.tuning import PREALLOCATION
from fsage.model.typed import Json


def path_of(home: Path) -> Path:
    """The note; it also has the preallocation, under a key of its own, which its own verb restores."""
    return home / "tunables.json"


def read(home: Path) -> Json:
    """What is noted of each tunable."""
    return {name: entry for name, entry in whole(home).items() if name != PREALLOCATION}


def whole(home: Path) -> Json:
    """The same, with the preallocation."""
    noted: Json = files.read_json(path_of(home)) or {}
    return noted


def note(home: Path, tunables: Json) -> None:
    """Note the tunables; the preallocation stays noted."""
    before = whole(home)
    after = {**tunables, **{name: entry for name, entry in before.items() if name == PREALLOCATION}}
    if not after:
        files.remove(path_of(home))
    elif after != before:
        files.write_json(path_of(home), after)
