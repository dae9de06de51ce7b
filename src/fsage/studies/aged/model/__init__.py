"""Steps of states that are original: aged by use, or restored from an image."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fsage.model.structure import Achieved, Notes, Step, filled
from fsage.studies.aged.model import churn
from fsage.studies.aged.model.churn import Way


@dataclass(frozen=True)
class Age(Step):
    """Use it as `way` says until `percent` of the capacity are in use and `written_percent` of it were written."""

    way: Way
    percent: int
    written_percent: int
    seed: int | None

    def describe(self) -> str:
        return f"age by {self.way} to {self.percent}%, with {self.written_percent}% of the capacity written"

    def writes_bytes(self, capacity_bytes: int) -> int:
        return self._bytes(capacity_bytes)[1]

    def left(self, capacity_bytes: int) -> dict[tuple[str, str], int]:
        """(folder, name) -> size of the files that are there in the end."""
        return churn.left(self.way, *self._bytes(capacity_bytes), self.seed or 0)

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """Its files have names of their own; which are left follows from what it did."""
        left = self.left(noted["capacity_bytes"]) if noted else ()
        return [mounts[0] / "filler" / folder / name for folder, name in left]

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """What is left of its files."""
        left = self.left(capacity_bytes)
        shares.append(filled(self.generation, sum(left.values()), len(left), capacity_bytes, self.percent))

    def _bytes(self, capacity_bytes: int) -> tuple[int, int]:
        return capacity_bytes * self.percent // 100, capacity_bytes * self.written_percent // 100


@dataclass(frozen=True)
class Restore(Step):
    """Restore `image`; `input`: its SHA-256, under which the request has its place."""

    image: str
    input: str | None = None

    def describe(self) -> str:
        return f"restore {self.image}"
