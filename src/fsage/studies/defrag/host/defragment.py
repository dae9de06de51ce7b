"""Step `defragment`: a file of the state, or all files, by the file system's own tool, within a time limit.

What the file holds is the same before and after, or the step fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from fsage.host.defragmentation import defragment, ranges
from fsage.host.structure import Work
from fsage.host.targets.target import Target
from fsage.model.errors import Failure, Refusal
from fsage.model.filler import path_of
from fsage.model.structure import Shard, Step
from fsage.model.typed import Json
from fsage.studies.defrag.model import HOT, Defragment

SHOWN = 5


def work(step: Defragment, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Defragment; notes: tool, extents, moved bytes, what is still fragmented, and a checksum of the file."""
    if not target.filesystem:
        raise Failure(f"target {target.name} is a directory: its file system is not known, so nothing defragments it")
    path = path_of(target.mounts, step.generation, 0)
    before = checksum(path)
    try:
        moved = _by_scope(step, target, path, target.filesystem)
    except Refusal as why:
        if step.scope != HOT:
            raise
        return Work(0, {"unsupported": str(why)})
    target.remount()  # what is compared comes from the device
    if checksum(path) != before:
        raise Failure(f"{path} has another content after {moved['tool']} than before: sha256 was {before}")
    changed = len(moved.pop("files", [path]))
    return Work(changed, {**moved, "left": moved["left"][:SHOWN], "sha256": before})


def _by_scope(step: Defragment, target: Target, path: Path, filesystem: str) -> Json:
    """Defragment what the step names. Raises Refusal, Failure."""
    if step.scope == HOT:
        if not step.hot_bytes or not step.every_bytes:
            raise Failure("scope hot needs hot_bytes and every_bytes")
        hot = ranges.hot(path.stat().st_size, step.hot_bytes, step.every_bytes)
        return ranges.defragment(path, filesystem, hot, step.time_limit_s)
    where = [path] if step.scope == "file" else target.mounts[0] / "filler"
    return defragment.defragment(where, filesystem, step.time_limit_s)


def checksum(path: Path) -> str:
    """SHA-256 of what a file holds, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
