"""The journal of changed host settings: each is noted before it is changed, so that the next command can undo it.

Settings of one target (its control group, its device's cost model) are in `<home>/<target>/journal.json`. Settings that
all targets of a machine share are in `/run/fsage/shared.json`: a controller that was moved from cgroup v1, and `io`
that groups may use. They are undone with the last group of any target. A reboot voids both files.
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
    if noted and noted["boot_id"] == files.boot_id():
        return noted["entries"]
    return []


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
