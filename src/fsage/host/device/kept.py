"""Layouts that were laid on a sparse target, each kept as a sparse file beside its image: laid again, it is a copy.

They lie in the XFS below (fsage.host.device.below), which has room for `sparse.KEPT` of them, and share their blocks
with the image while nothing changes there (reflink). A file has its name only once it is complete. `release` removes
all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fsage.host.device import below
from fsage.host.system import files
from fsage.host.system.sparse_files import clone
from fsage.model import sparse
from fsage.model.typed import Json

PREFIX = "layout-"
SUFFIX = ".img"
NOTES = ".json"
PART = ".part"


def path_of(home: Path, name: str) -> Path:
    """Where the layout of this name, a digest, is kept once it was laid."""
    return below.point_of(home) / f"{PREFIX}{name}{SUFFIX}"


def keep(home: Path, name: str, image: Path, change: Callable[[str], None]) -> Path:
    """Keep a copy of a target's image as `change` makes it; where it is. Raises Failure, OSError."""
    path = path_of(home, name)
    part = path.with_suffix(PART)
    for other in sorted(_all(home), key=lambda kept: kept.stat().st_mtime)[: -sparse.KEPT + 1 or None]:
        files.remove(other)
        files.remove(other.with_suffix(NOTES))
    for killed in below.point_of(home).glob(f"{PREFIX}*{PART}"):
        files.remove(killed)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.ftruncate(descriptor, image.stat().st_size)
        clone(image, part)
        change(str(part))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(part, path)
    files.sync_dir(path.parent)
    return path


def note(home: Path, name: str, notes: Json | None) -> None:
    """Note beside a layout that is kept what is known of it, if it is kept; None: it is removed."""
    if notes is None:
        files.remove(path_of(home, name))
    elif path_of(home, name).exists():
        files.write_json(path_of(home, name).with_suffix(NOTES), notes)


def notes_of(home: Path, name: str) -> Json | None:
    """What was noted of a layout that is kept; None where there is none."""
    path = path_of(home, name)
    if path.exists():
        return files.read_json(path.with_suffix(NOTES))
    return None


def forget(home: Path) -> list[str]:
    """Remove all that are kept; a sentence for each."""
    proof = []
    for path in below.point_of(home).glob(f"{PREFIX}*"):
        files.remove(path)
        proof.append(f"{path} is gone")
    return proof


def _all(home: Path) -> list[Path]:
    return list(below.point_of(home).glob(f"{PREFIX}*{SUFFIX}"))
