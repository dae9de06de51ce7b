"""Step `defragment`: a file of the state, or all files, by the file system's own tool, within a time limit.

What the file holds is the same before and after, or the step fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fsage.host.defragmentation import defragment, ranges
from fsage.host.structure import files
from fsage.host.structure.step import Shard, Step, Work
from fsage.model.errors import Failure, Refusal

if TYPE_CHECKING:
    from fsage.host.targets.target import Target

SHOWN = 5
HOT = "hot"


@dataclass(frozen=True)
class Defragment(Step):
    """Defragment the first file of the generation (scope `file`), all files (`filesystem`), or ranges of it (`hot`).

    Of scope `hot` they are the first `hot_bytes` of each `every_bytes`, where they lie in pieces, by the file system's
    own call; where there is none, it is noted why, and the cells of the state are unsupported.
    """

    PLAYBOOK: ClassVar[str] = "defragment.yml"

    scope: Literal["file", "filesystem", "hot"]
    time_limit_s: float
    hot_bytes: int | None = None
    every_bytes: int | None = None

    def describe(self) -> str:
        """The step in words."""
        if self.scope == HOT:
            return f"defragment the first {self.hot_bytes} of each {self.every_bytes} bytes of the file"
        return f"defragment the {self.scope}"

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Defragment, and notes of it: tool, extents, bytes moved, what is left in pieces, a checksum of the file."""
        if not target.filesystem:
            raise Failure(f"target {target.name} is a directory: what its file system is, is not known")
        path = files.path_of(target.mounts, self.generation, 0)
        before = checksum(path)
        try:
            found = self._by_scope(target, path, target.filesystem)
        except Refusal as why:
            if self.scope != HOT:
                raise
            return Work(0, {"unsupported": str(why)})
        target.remount()  # what is compared comes from the device
        if checksum(path) != before:
            raise Failure(f"{path} holds something else after {found['tool']} than before: sha256 was {before}")
        changed = len(found.pop("files", [path]))
        return Work(changed, {**found, "left": found["left"][:SHOWN], "sha256": before})

    def _by_scope(self, target: Target, path: Path, filesystem: str) -> dict[str, Any]:
        """Defragment what the step names. Raises Refusal, Failure."""
        if self.scope == HOT:
            if not self.hot_bytes or not self.every_bytes:
                raise Failure("scope hot needs hot_bytes and every_bytes")
            hot = ranges.hot(path.stat().st_size, self.hot_bytes, self.every_bytes)
            return ranges.defragment(path, filesystem, hot, self.time_limit_s)
        where = [path] if self.scope == "file" else target.mounts[0] / "filler"
        return defragment.defragment(where, filesystem, self.time_limit_s)


def checksum(path: Path) -> str:
    """SHA-256 of what a file holds, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
