"""Step `fragment`: each file of a generation is deleted with a probability.

What a smaller share deletes is among what a larger one deletes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from fsage.host.steps.populate import sizes_of
from fsage.host.structure import files
from fsage.host.structure.step import Achieved, Files, Shard, Step, Work

if TYPE_CHECKING:
    from fsage.host.targets.target import Target


@dataclass(frozen=True)
class Fragment(Step):
    """Delete each file of the generation with a probability of `percent`."""

    SHARDED: ClassVar[bool] = True
    PLAYBOOK: ClassVar[str] = "fragment.yml"

    percent: int
    seed: int | None

    def describe(self) -> str:
        """The step in words."""
        return f"fragment generation {self.generation} by {self.percent}%"

    def doomed(self, count: int) -> set[int]:
        """Indices among `count` files of its generation that it deletes."""
        return doomed(self.seed, self.generation, self.percent, count)

    def continues(self, last: Step) -> bool:
        """A larger share of the same generation goes on from a smaller one."""
        if not isinstance(last, Fragment):
            return False
        return replace(last, percent=self.percent) == self and self.percent > last.percent

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Delete this shard's doomed files."""
        count = len(sizes_of(done, self.generation, target.capacity_bytes))
        gone = 0
        for index in sorted(self.doomed(count)):
            if index % shard.count != shard.index:
                continue
            check_lease()
            try:
                files.path_of(target.mounts, self.generation, index).unlink()
                gone += 1
            except FileNotFoundError:
                pass  # a smaller BB of the same generation took it before
        return Work(gone)

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """The doomed ones are gone."""
        count = sum(1 for generation, _ in files if generation == self.generation)
        for index in self.doomed(count):
            files.pop((self.generation, index), None)

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """How much of the generation was deleted."""
        sizes = sizes_of(done, self.generation, capacity_bytes)
        lost = self.doomed(len(sizes))
        shares[-1]["fragmentation_percent"] = self.percent
        shares[-1]["deleted_files"] = len(lost)
        shares[-1]["deleted_share_files"] = len(lost) / len(sizes) if sizes else 0.0
        shares[-1]["deleted_share_bytes"] = sum(sizes[index] for index in lost) / sum(sizes) if sizes else 0.0


def doomed(seed: int | None, generation: int, percent: int, count: int) -> set[int]:
    """Indices among `count` files of a generation that `percent` fragmentation deletes."""
    return {index for index in range(count) if files.fate(seed, generation, index) < percent / 100}
