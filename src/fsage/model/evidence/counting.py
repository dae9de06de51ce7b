"""How extents on a device are counted, whatever their source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fsage.model.evidence.freespace import FreeSpace
from fsage.model.evidence.groups import Groups

if TYPE_CHECKING:
    from fsage.model.evidence.freespace import Keep


@dataclass(frozen=True)
class Counting:
    """Free extents are counted in how many `bins` at most, and who `keep`s them, starts and ends in bytes.

    Those that are kept come in ascending order, and none touches the next.
    """

    bins: int = 1024
    keep: Keep | None = None

    def free_space(self, device_bytes: int, block_bytes: int, unit_bytes: int = 1) -> FreeSpace:
        """Who counts the free extents of a device."""
        return FreeSpace(device_bytes, block_bytes, self.bins, self.keep, unit_bytes)

    def groups(self, kind: str) -> Groups:
        """Who counts its groups."""
        return Groups(kind)


ONCE = Counting()
"""Counted and not kept."""
