"""Step `defragment`: the file of `fragmented_file`, or all files, by the file system's own tool, within a time limit.

Keys: generation (that of the file), scope (file, filesystem, hot), time_limit_s; of scope `hot` also hot_bytes and
every_bytes: of the file only the first hot_bytes of each every_bytes, where they lie in pieces, by the file system's
own call; where there is none, it is noted why, and the cells of the state are unsupported. What the file holds is the
same before and after, or the step fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from fsage.agent import defragment, ranges
from fsage.agent.errors import Failure, Refusal
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False
SHOWN = 5


def describe(step: dict) -> str:
    """The step in words."""
    if step["scope"] == "hot":
        return f"defragment the first {step['hot_bytes']} of each {step['every_bytes']} bytes of the file"
    return f"defragment the {step['scope']}"


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Defragment, and notes of it: tool, extents, bytes moved, what is left in pieces, a checksum of the file."""
    if not target.filesystem:
        raise Failure(f"target {target.name} is a directory: what its file system is, is not known")
    path = files.path_of(target.mounts, step["generation"], 0)
    before = checksum(path)
    try:
        found = _by_scope(target, step, path, target.filesystem)
    except Refusal as why:
        if step["scope"] != "hot":
            raise
        return {"files": 0, "unsupported": str(why)}
    target.remount()  # what is compared comes from the device
    if checksum(path) != before:
        raise Failure(f"{path} holds something else after {found['tool']} than before: sha256 was {before}")
    return {
        "files": len(found.pop("files", [path])),
        **found,
        "left": found["left"][:SHOWN],
        "sha256": before,
    }


def _by_scope(target: Target, step: dict, path: Path, filesystem: str) -> dict:
    """Defragment what the step names. Raises Refusal, Failure."""
    if step["scope"] == "hot":
        hot = ranges.hot(path.stat().st_size, step["hot_bytes"], step["every_bytes"])
        return ranges.defragment(path, filesystem, hot, step["time_limit_s"])
    where = [path] if step["scope"] == "file" else target.mounts[0] / "filler"
    return defragment.defragment(where, filesystem, step["time_limit_s"])


def checksum(path: Path) -> str:
    """SHA-256 of what a file holds, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """The same files."""


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """The same shares."""
