"""Step `defragment`: the file that `pieces` made, or all files, by the file system's own tool, within a time limit.

Keys: generation (that of the file), scope (file, filesystem), time_limit_s. What the file holds is the same before and
after, or the step fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from fsage.agent import defragment
from fsage.agent.errors import Failure
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False
SHOWN = 5


def said(step: dict) -> str:
    """The step in words."""
    return f"defragment the {step['scope']}"


def work(target: Target, step: dict, done: list[dict], shard: dict, go_on: Callable[[], None]) -> dict:
    """Defragment, and notes of it: tool, extents, bytes moved, what is left in pieces, a checksum of the file."""
    if not target.filesystem:
        raise Failure(f"target {target.name} is a directory: what its file system is, is not known")
    path = files.path_of(target.mounts, step["generation"], 0)
    before = checksum(path)
    where = [path] if step["scope"] == "file" else target.mounts[0] / "filler"
    found = defragment.defragment(where, target.filesystem, step["time_limit_s"])
    target.remount()  # what is compared comes from the device
    if checksum(path) != before:
        raise Failure(f"{path} holds something else after {found['tool']} than before: sha256 was {before}")
    return {
        "files": len(found.pop("files")),
        **found,
        "left": found["left"][:SHOWN],
        "sha256": before,
    }


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
