"""What a sparse target takes of the disk below: that much is reserved before it is made, and never more."""

from __future__ import annotations

from typing import NamedTuple

from fsage.base import GIB, MIB
from fsage.layouts.geometry import Geometry
from fsage.model import filesystems
from fsage.model.target import Spec

USUAL_CELL_BYTES = 4 * GIB
"""Room for a cell's files where no amount is declared; at most SHARE_OF_SIZE of the target."""
SHARE_OF_SIZE = 0.15
CELLS = 5
"""Room is reserved for the files of a cell at so many places, which stay one after the other; a study has five."""
KEPT = 2
"""On a target with a geometry so many layouts are kept. The image shares its blocks with one, or mkfs has just run."""
LEAST_BYTES = 512 * MIB  # mkfs.xfs wants 300 MiB
OVERHEAD = 1.02  # of the XFS that the images lie in, with its log beside that
LOG_BYTES = 64 * MIB


class Takes(NamedTuple):
    """Bytes that a sparse target takes below."""

    metadata_bytes: int
    cell_bytes: int
    margin_bytes: int

    @property
    def total_bytes(self) -> int:
        """All together, whole MiB, with what the XFS below needs for itself."""
        wanted = self.metadata_bytes + self.written_bytes + self.margin_bytes
        return -(-max(LEAST_BYTES, int(wanted * OVERHEAD) + LOG_BYTES) // MIB) * MIB

    @property
    def written_bytes(self) -> int:
        """What files of cells can take, all that stay at a time."""
        return CELLS * self.cell_bytes

    def words(self) -> str:
        """The sum and its parts."""
        metadata, cell, margin = (f"{part / GIB:.2f}" for part in self)
        return (
            f"{self.total_bytes / GIB:.2f} GiB below: metadata {metadata}, {CELLS} times the largest cell {cell}, "
            f"margin {margin}"
        )


def takes(spec: Spec) -> Takes:
    """What a sparse target as declared takes."""
    size_bytes = int(spec["size_gib"] * GIB)
    tasks = max(1, int(spec["scale"]["tasks"]))
    usual = min(USUAL_CELL_BYTES, int(size_bytes * SHARE_OF_SIZE))
    if spec["amount_mib"]:
        cell_bytes = spec["amount_mib"] * tasks * MIB
    else:
        cell_bytes = usual
    system = filesystems.named(spec["filesystem"])
    metadata_bytes = system.metadata_bytes(size_bytes)
    if spec["geometry"] and system.takes_blocks:
        geometry = Geometry.from_json(spec["geometry"], "fsage_target.geometry")
        metadata_bytes = KEPT * geometry.laid_bytes + geometry.made_bytes
    return Takes(metadata_bytes, cell_bytes, max(64 * MIB, (metadata_bytes + CELLS * cell_bytes) // 16))
