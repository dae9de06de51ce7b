"""Step `restore`: the target becomes a file system that is in production elsewhere, out of an image of its metadata.

Directories, files and free space lie as they do there; what files hold does not come along. Whoever made the image
decides what the kernel reads, so a study has to say that it is trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.host.structure.step import Achieved, Shard, Step, Work
from fsage.model.errors import Failure

if TYPE_CHECKING:
    from fsage.host.targets.target import Target


@dataclass(frozen=True)
class Restore(Step):
    """Restore `image`; `input`: its SHA-256, under which the request has its place."""

    image: str
    input: str | None = None

    def describe(self) -> str:
        """The step in words."""
        return f"restore {self.image}"

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Put it in the place of what is there."""
        if not self.input or self.input not in target.inputs:
            raise Failure(
                f"the request is without the image {self.image}; `fsage request STUDY STATE` makes a whole one"
            )
        if done:
            raise Failure(f"{self.describe()}: it takes the place of the whole file system, so it is the first step")
        notes = target.restore(Path(target.inputs[self.input]), self.input, check_lease)
        return Work(1, notes)

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """No share of files was asked for."""
        return
