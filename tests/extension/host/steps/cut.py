"""Step `cut`: every file of a generation is cut to a share of what it was made with."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from fsage.host.steps.populate import sizes_of
from fsage.host.structure import files
from fsage.host.structure.step import Achieved, Files, Shard, Step, Work
from fsage.host.targets.target import Target


@dataclass(frozen=True)
class Cut(Step):
    """Keep `kept_percent` of each file of the generation."""

    SHARDED: ClassVar[bool] = True

    kept_percent: int

    def describe(self) -> str:
        """The step in words."""
        return f"cut the files of generation {self.generation} to {self.kept_percent}%"

    def continues(self, last: Step) -> bool:
        """Less is kept of what is left."""
        if not isinstance(last, Cut):
            return False
        return replace(last, kept_percent=self.kept_percent) == self and self.kept_percent < last.kept_percent

    def kept_bytes(self, size: int) -> int:
        """What is kept of a file."""
        return size * self.kept_percent // 100

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Cut this shard's files."""
        cut = 0
        for index, size in enumerate(sizes_of(done, self.generation, target.capacity_bytes)):
            if index % shard.count == shard.index:
                check_lease()
                os.truncate(files.path_of(target.mounts, self.generation, index), self.kept_bytes(size))
                cut += 1
        return Work(cut)

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """They are smaller."""
        for (generation, index), size in files.items():
            if generation == self.generation and size is not None:
                files[generation, index] = self.kept_bytes(size)

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """How much of the generation's bytes is gone."""
        shares[-1]["deleted_share_bytes"] = 1 - self.kept_percent / 100
