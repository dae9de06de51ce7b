"""Steps of states of defragmentation: a file in pieces, a run of free blocks, and the tool that joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fsage.api.model import BLOCK_BYTES, MIB, Achieved, Files, Step

FILES = 3
RESERVED = 2


@dataclass(frozen=True)
class FragmentedFile(Step):
    """Make a file of `percent` of the capacity in so many `extents`; each of the other two takes as much."""

    ONE_STORE: ClassVar[bool] = True
    WANTS: ClassVar[tuple[str, ...]] = ("own_stores", "takes_layouts")

    percent: int
    extents: int

    def describe(self) -> str:
        return f"make a file of {self.percent}% in {self.extents} extents"

    def file_bytes(self, capacity_bytes: int) -> int:
        """The file's size."""
        return whole_mib(self.percent, capacity_bytes)

    def piece_bytes(self, capacity_bytes: int) -> int:
        """The length of an extent, of whole blocks; the last one may be longer."""
        return self.file_bytes(capacity_bytes) // self.extents // BLOCK_BYTES * BLOCK_BYTES

    def unavailable_because(self, capacity_bytes: int) -> str | None:
        if self.piece_bytes(capacity_bytes):
            return None
        size = self.file_bytes(capacity_bytes)
        return f"{self.extents} extents of a file of {size} bytes would be less than a block each: give fewer"

    def writes_bytes(self, capacity_bytes: int) -> int:
        return self.file_bytes(capacity_bytes)

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """All three are there."""
        files.update({(self.generation, index): self.file_bytes(capacity_bytes) for index in range(FILES)})

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """A generation of three files."""
        sizes = FILES * [self.file_bytes(capacity_bytes)]
        shares.append(self.filled(sizes, capacity_bytes, FILES * self.percent))


def whole_mib(percent: int, capacity_bytes: int) -> int:
    """A share of the capacity in whole MiB: fio reads whole transfers only."""
    return capacity_bytes * percent // 100 // MIB * MIB


@dataclass(frozen=True)
class FreeReservedRun(Step):
    """Set the run free."""

    def describe(self) -> str:
        return "set a run of blocks free"

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """It is gone."""
        files.pop((self.generation, RESERVED), None)

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """One file of three."""
        shares[0]["deleted_files"] = 1
        shares[0]["deleted_share_files"] = shares[0]["deleted_share_bytes"] = 1 / 3


HOT = "hot"


@dataclass(frozen=True)
class Defragment(Step):
    """Defragment the first file of the generation (scope `file`), all files (`filesystem`), or ranges of it (`hot`).

    The ranges of scope `hot` are the first `hot_bytes` of each `every_bytes`. The file system's own call defragments
    those that are fragmented. Where it has no such call, a note says so, and the cells of the state are unsupported.
    """

    PLAYBOOK: ClassVar[str] = "defragment.yml"
    WANTS: ClassVar[tuple[str, ...]] = ("own_stores", "takes_layouts")

    scope: Literal["file", "filesystem", "hot"]
    time_limit_s: float
    hot_bytes: int | None = None
    every_bytes: int | None = None

    def describe(self) -> str:
        if self.scope == HOT:
            return f"defragment the first {self.hot_bytes} of each {self.every_bytes} bytes of the file"
        return f"defragment the {self.scope}"
