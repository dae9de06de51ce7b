"""What fsage changes outside a target: noted before it is done, so that whoever comes next can undo it.

What belongs to one target (its control group, its device's cost model) stands in
`<home>/<target>/journal.json`. What all targets of this machine share (a controller moved from cgroup v1,
`io` handed to the groups) stands in `/run/fsage/shared.json` and is undone with the last group of any target.
A reboot voids both.
"""

from __future__ import annotations

from pathlib import Path

from fsage.host.system import files
from fsage.model.typed import Json

SHARED = Path("/run/fsage/shared.json")
SHARED_LOCK = Path("/run/fsage/shared.lock")

Entry = Json


def path_of(home: Path) -> Path:
    """The journal in a target's home."""
    return home / "journal.json"


def entries(path: Path) -> list[Entry]:
    """The noted changes since boot, oldest first."""
    noted = files.read_json(path)
    return noted["entries"] if noted and noted["boot_id"] == files.boot_id() else []


def note(path: Path, entry: Entry) -> None:
    """Note a change before it is made, unless it is noted already."""
    noted = entries(path)
    if entry not in noted:
        files.write_json(path, {"boot_id": files.boot_id(), "entries": [*noted, entry]})


def strike(path: Path, entry: Entry) -> None:
    """Remove the note of a change that was undone."""
    left = [other for other in entries(path) if other != entry]
    if left:
        files.write_json(path, {"boot_id": files.boot_id(), "entries": left})
    else:
        files.remove(path)
