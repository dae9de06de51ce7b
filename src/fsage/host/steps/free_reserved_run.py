"""Step `free_reserved_run`: the run of blocks that `fragmented_file` reserved becomes free; its file fits there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsage.host.steps.fragmented_file import RESERVED
from fsage.host.structure import files
from fsage.host.structure.step import Achieved, Files, Shard, Step, Work

if TYPE_CHECKING:
    from fsage.host.targets.target import Target


@dataclass(frozen=True)
class FreeReservedRun(Step):
    """Set the run free."""

    def describe(self) -> str:
        """The step in words."""
        return "set a run of blocks free"

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Delete the file that reserved it."""
        path = files.path_of(target.mounts, self.generation, RESERVED)
        gone = path.exists()
        path.unlink(missing_ok=True)
        return Work(int(gone))

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """It is gone."""
        files.pop((self.generation, RESERVED), None)

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """One file of three."""
        shares[0]["deleted_files"] = 1
        shares[0]["deleted_share_files"] = shares[0]["deleted_share_bytes"] = 1 / 3
