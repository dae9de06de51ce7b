"""What hosts and launcher share: step `cut`, tool `dd`, file system ext2."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fsage.api.model import Achieved, Files, Step, filesystems, tools

TOOLS = {"dd": tools.Tool(("--version",), r"dd \(coreutils\) ")}


class Ext2(filesystems.FileSystem):
    """ext2. It has no defragmenter: e4defrag wants extents."""

    name = title = "ext2"


@dataclass(frozen=True)
class Cut(Step):
    """Keep `kept_percent` of each file of the generation, which was made with more."""

    SHARDED: ClassVar[bool] = True

    kept_percent: int

    def describe(self) -> str:
        return f"cut the files of generation {self.generation} to {self.kept_percent}%"

    def continues(self, last: Step) -> bool:
        """Less is kept of what is left."""
        if not isinstance(last, Cut):
            return False
        return replace(last, kept_percent=self.kept_percent) == self and self.kept_percent < last.kept_percent

    def kept_bytes(self, size: int) -> int:
        """What is kept of a file."""
        return size * self.kept_percent // 100

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """They are smaller."""
        for (generation, index), size in files.items():
            if generation == self.generation and size is not None:
                files[generation, index] = self.kept_bytes(size)

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """How much of the generation's bytes is gone."""
        shares[-1]["deleted_share_bytes"] = 1 - self.kept_percent / 100
