"""Steps of states of striping: a striped file, and a database in volumes, laid out by a pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fsage.model import striping
from fsage.model.errors import Refusal
from fsage.model.structure import Files, Notes
from fsage.studies.striping.model import sequences


@dataclass(frozen=True)
class Stripe(striping.Layout):
    """Lay the file out.

    `eviction_file`: the size of one that is made first (fsage.host.structure.eviction), or None.
    """

    eviction_file: float | Literal["memory"] | None = None

    def describe(self) -> str:
        """The step in words."""
        return f"lay out a file as {self.pattern} ({self.realisation})"

    def expect(self, files: Files, capacity_bytes: int) -> None:
        """The cache-eviction file, if requested; its size depends on the target."""
        if self.eviction_file is not None:
            files.update({(self.generation, index): None for index in range(striping.EVICTION_FILES)})


@dataclass(frozen=True)
class Database(striping.Layout):
    """Make so many `volumes` and `queries`; the whole is of `percent` of the striped file's size, or a little less."""

    volumes: int
    queries: int
    percent: int
    seed: int | None

    def describe(self) -> str:
        """The step in words."""
        return f"make a database of {self.volumes} volumes, laid out as {self.pattern}"

    def sequences(self, claim: Mapping[str, object]) -> int:
        """How many sequences each volume has on a claimed target.

        Raises Refusal where that is none, or more than makeblastdb keeps in one volume.
        """
        whole = striping.file_bytes(claim) * self.percent // 100
        count = whole // self.volumes // sequences.PACKED_BYTES
        if not 0 < count * sequences.PACKED_BYTES < sequences.MOST_BYTES:
            raise Refusal(
                f"a database of {whole} bytes in {self.volumes} volumes: each must be of {sequences.PACKED_BYTES} to "
                f"{sequences.MOST_BYTES} bytes; declare another amount_mib, or another number of volumes"
            )
        return count

    def lying(self, claim: Mapping[str, object]) -> list[striping.Volume]:
        """The volumes on a claimed target. Raises Refusal where the target cannot have them in this layout."""
        size = self.sequences(claim) * sequences.PACKED_BYTES
        return striping.volumes(self, striping.osts_of(claim), self.volumes, size)

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """All files of the volumes, and the queries; none where the target cannot have the layout."""
        if "unsupported" in noted:
            return []
        bases = [base_of(mounts, number, *place) for number, place in enumerate(noted["volumes"])]
        of_volumes = [base.with_name(base.name + suffix) for base in bases for suffix in sequences.SUFFIXES]
        return [*of_volumes, queries_at(mounts)]


def base_of(mounts: Sequence[Path], number: int, segment: int, ost: int | None) -> Path:
    """The path of a volume without its files' suffixes; on Lustre, which chooses OSTs, `ost` does not matter."""
    return mounts[(ost or 0) % len(mounts)] / "filler" / f"g{segment + 1}" / sequences.name_of(number)


def queries_at(mounts: Sequence[Path]) -> Path:
    """Where the queries lie."""
    return mounts[0] / "filler" / "g1" / "queries.fa"
