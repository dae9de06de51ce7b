"""Step `keep_free_space`: what is free stays free, block by block, and large files take the place of all other files.

So what the steps before left is measured once more without their files: what its free space alone costs. It is how a
replica is compared with its original (config/replica_validity.yaml).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from fsage.host.structure import files, laying
from fsage.host.structure.step import Achieved, Notes, Shard, Step, Work

if TYPE_CHECKING:
    from fsage.host.targets.target import Target


@dataclass(frozen=True)
class KeepFreeSpace(Step):
    """Keep the free space as the steps before left it, or as much of it in one run (`joined`)."""

    REPLACES: ClassVar[bool] = True

    joined: bool

    def describe(self) -> str:
        """The step in words."""
        return "keep the free space" + (", in one run" if self.joined else "") + ", held by large files"

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Read what is free, delete all files, and lay it out again."""
        layout = laying.now(target)
        for mount in target.mounts:
            files.remove_folders(mount)
            files.remove_others(mount)
        notes = laying.lay(target, self.generation, f"of {done[-1].describe()}", layout, self.joined, check_lease)
        return Work(notes["files"], notes)

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """The files that hold what is in use."""
        return [files.path_of(mounts, self.generation, index) for index in range(noted.get("files", 0))]

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """No share of files was asked for; the notes have what is free."""
        shares.clear()
