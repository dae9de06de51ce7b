"""The step of states of striping: a striped file, laid out by a pattern. With it comes the map of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fsage.model import striping
from fsage.model.striping import Layout, Segment, counts, file_bytes, osts_of, pieces
from fsage.model.structure import Files

__all__ = ["Layout", "Segment", "Stripe", "counts", "file_bytes", "osts_of", "pieces"]


@dataclass(frozen=True)
class Stripe(striping.Layout):
    """Lay the file out.

    `eviction_file`: the size of one that is made first (fsage.host.instruments.eviction), or None.
    """

    eviction_file: float | Literal["memory"] | None = None

    def describe(self) -> str:
        return f"lay out a file as {self.pattern} ({self.realisation})"

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """The cache-eviction file, if requested; its size depends on the target."""
        if self.eviction_file is not None:
            files.update({(self.generation, index): None for index in range(striping.EVICTION_FILES)})
