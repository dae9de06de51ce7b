"""Step `database`: a nucleotide database for BLAST, in volumes that lie as the state's layout says.

`makeblastdb` makes the volumes once for a claimed target, from seeded sequences; each state has a copy, so that every
layout holds the same bytes (the index files name the date). `blastn` maps whole files: a volume's three files lie on
one OST of a target with stores; on Lustre they have their segment's stripes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsage.host.databases import blastdb, sequences
from fsage.host.lustre import stripes
from fsage.host.stores import filesystems
from fsage.host.structure import files, striping
from fsage.host.structure.room import Room
from fsage.host.structure.step import Notes, Shard, Step, Work
from fsage.host.targets.declaration import MIB
from fsage.model.errors import Failure, Refusal
from fsage.model.target import Striping

if TYPE_CHECKING:
    from fsage.host.targets.target import Target


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

    def sequences(self, claim: Mapping[str, Any]) -> int:
        """How many sequences each volume has on a claimed target.

        Raises Refusal where that is none, or more than makeblastdb keeps in one volume.
        """
        whole = striping.file_bytes(claim) * self.percent // 100
        count = whole // self.volumes // blastdb.PACKED_BYTES
        if not 0 < count * blastdb.PACKED_BYTES < blastdb.MOST_BYTES:
            raise Refusal(
                f"a database of {whole} bytes in {self.volumes} volumes: each must be of "
                f"{blastdb.PACKED_BYTES} to {blastdb.MOST_BYTES} bytes; declare another amount_mib for the target, or "
                "another number of volumes for the study"
            )
        return count

    def lying(self, claim: Mapping[str, Any]) -> list[striping.Volume]:
        """The volumes on a claimed target. Raises Refusal where the target cannot have them in this layout."""
        size = self.sequences(claim) * blastdb.PACKED_BYTES
        return striping.volumes(self, striping.osts_of(claim), self.volumes, size)

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Make the volumes if they are not there from before, copy each to its place, and note where that is."""
        try:
            volumes = self.lying(target.claim)
        except Refusal as why:
            return Work(0, {"unsupported": str(why)})
        each = self.sequences(target.claim)
        made = blastdb.made(target, self.seed, self.volumes, each, check_lease)
        lustre = target.has_osts
        room = Room(target)
        for number in range(len(self.segments)):
            files.make_room(target.mounts, number + 1)
            if lustre:
                stripes.set_on(target.mounts[0] / "filler" / f"g{number + 1}", self._striping(target, number))
        noted: list[tuple[int, int | None]] = [(volume.segment, None if lustre else volume.ost) for volume in volumes]
        with filesystems.one_cpu():
            for number, (segment, ost) in enumerate(noted):
                check_lease()
                base = base_of(target.mounts, number, segment, ost)
                for suffix in blastdb.SUFFIXES:
                    source = target.home / blastdb.PLACE / f"{blastdb.name_of(number)}{suffix}"
                    room.copy(source, base.with_name(base.name + suffix), whole=not lustre)
            text = sequences.queries(self.seed, self.queries, self.volumes, each)
            room.note(queries_at(target.mounts), text)
        there = self.named(target.mounts, {"volumes": noted})
        if lustre:
            self._verify_stripes(target, there)
        return Work(len(there), {"volumes": [list(place) for place in noted], **made})

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """All files of the volumes, and the queries; none where the target cannot have the layout."""
        if "unsupported" in noted:
            return []
        bases = [base_of(mounts, number, *place) for number, place in enumerate(noted["volumes"])]
        of_volumes = [base.with_name(base.name + suffix) for base in bases for suffix in blastdb.SUFFIXES]
        return [*of_volumes, queries_at(mounts)]

    def _striping(self, target: Target, number: int) -> Striping:
        """The striping of the files of one segment, as a target's declaration has it."""
        count = striping.counts(self, striping.osts_of(target.claim))[number]
        size_mib = self.segments[number].stripe_bytes // MIB
        return {"stripe_count": count, "stripe_size_mib": size_mib, "first_ost": stripes.ANY}

    def _verify_stripes(self, target: Target, there: Sequence[Path]) -> None:
        """`Failure` where volumes of a segment, a sample of them, have other stripes than it."""
        osts = striping.osts_of(target.claim)
        for number in range(len(self.segments)):
            packed = [path for path in there if path.suffix == ".nsq" and path.parent.name == f"g{number + 1}"]
            found = stripes.placement(packed, self._striping(target, number), osts)
            if found["astray"]:
                raise Failure(f"{len(found['astray'])} volumes lie elsewhere: {found['astray'][0]}")


def base_of(mounts: Sequence[Path], number: int, segment: int, ost: int | None) -> Path:
    """The path of a volume without its files' suffixes; on Lustre, which chooses OSTs, `ost` does not matter."""
    return mounts[(ost or 0) % len(mounts)] / "filler" / f"g{segment + 1}" / blastdb.name_of(number)


def queries_at(mounts: Sequence[Path]) -> Path:
    """Where the queries lie."""
    return mounts[0] / "filler" / "g1" / "queries.fa"
