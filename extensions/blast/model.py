"""The programs of BLAST+, and step `database`: a database in volumes that lie in a pattern's layout.

Data that programs map as files cannot be divided into objects. They are volumes, each a whole file on one OST. A volume
is seeded nucleotide sequences, as FASTA; queries are parts of them. Bases are drawn, so that a part of some hundred
bases is found where it is from and nowhere else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fsage.api.model import Json, JsonView, Refusal, tools
from fsage.studies.striping.model import Layout, counts, file_bytes, osts_of

TOOLS = {
    "blastn": tools.Tool(("-version",), "blastn: ", "blast.sif"),
    "makeblastdb": tools.Tool(("-version",), "makeblastdb: ", "blast.sif"),
}


class Volume(NamedTuple):
    """Bytes `start_bytes` to `end_bytes` of data that lie in whole files: this one's segment, and its OST."""

    start_bytes: int
    end_bytes: int
    segment: int
    ost: int


@dataclass(frozen=True)
class Database(Layout):
    """Make so many `volumes` and `queries`; the whole is of `percent` of the striped file's size, or a little less."""

    volumes: int
    queries: int
    percent: int
    seed: int | None

    def describe(self) -> str:
        return f"make a database of {self.volumes} volumes, laid out as {self.pattern}"

    def sequences(self, claim: JsonView) -> int:
        """How many sequences each volume has on a claimed target.

        Raises Refusal where that is none, or more than makeblastdb keeps in one volume.
        """
        whole = file_bytes(claim) * self.percent // 100
        count = whole // self.volumes // PACKED_BYTES
        if not 0 < count * PACKED_BYTES < MOST_BYTES:
            raise Refusal(
                f"a database of {whole} bytes in {self.volumes} volumes: each must be of {PACKED_BYTES} to "
                f"{MOST_BYTES} bytes; declare another amount_mib, or another number of volumes"
            )
        return count

    def lying(self, claim: JsonView) -> list[Volume]:
        """The volumes on a claimed target. Raises Refusal where the target cannot have them in this layout."""
        size = self.sequences(claim) * PACKED_BYTES
        return volumes(self, osts_of(claim), self.volumes, size)

    def named(self, mounts: list[Path], noted: Json) -> list[Path]:
        """All files of the volumes, and the queries; none where the target cannot have the layout."""
        if "unsupported" in noted:
            return []
        bases = [base_of(mounts, number, *place) for number, place in enumerate(noted["volumes"])]
        of_volumes = [base.with_name(base.name + suffix) for base in bases for suffix in SUFFIXES]
        return [*of_volumes, queries_at(mounts)]


def base_of(mounts: Sequence[Path], number: int, segment: int, ost: int | None) -> Path:
    """The path of a volume without its files' suffixes; on Lustre, which chooses OSTs, `ost` does not matter."""
    return mounts[(ost or 0) % len(mounts)] / "filler" / f"g{segment + 1}" / name_of(number)


def queries_at(mounts: Sequence[Path]) -> Path:
    """Where the queries lie."""
    return mounts[0] / "filler" / "g1" / "queries.fa"


BASES = 1 << 18
"""Of each sequence: 64 KiB in a database, which packs four into a byte."""
QUERY_BASES = 500
PACKED_BYTES = BASES // 4
"""Of each sequence in a database."""
MOST_BYTES = 10**9
"""Of a volume: makeblastdb would cut a larger one itself."""
SUFFIXES = (".nhr", ".nin", ".nsq")
"""Of a volume's files, in version 4 of the format: headers, index, packed sequences."""
LETTERS = bytes.maketrans(b"0123456789abcdef", b"ACGT" * 4)


def name_of(number: int) -> str:
    """A volume's name, without its files' suffixes."""
    return f"volume{number:04d}"


def sequence(seed: int | None, volume: int, number: int) -> bytes:
    """One sequence of a volume."""
    return random.Random(f"{seed}:{volume}:{number}").randbytes(BASES // 2).hex().encode().translate(LETTERS)


def fasta(seed: int | None, volume: int, count: int) -> Iterator[bytes]:
    """The `count` sequences of a volume, named VOLUME.NUMBER."""
    for number in range(count):
        yield b">%d.%d\n%s\n" % (volume, number, sequence(seed, volume, number))


def queries(seed: int | None, count: int, volumes: int, sequences: int) -> bytes:
    """Parts of `count` volumes, evenly chosen, named by where they are from: VOLUME.NUMBER.BASE, the first base is 1.

    `sequences`: how many each volume has.
    """
    draw = random.Random(f"{seed}:queries").random
    lines = []
    for volume in (query * volumes // count for query in range(count)):
        number = int(draw() * sequences)
        start = int(draw() * (BASES - QUERY_BASES))
        part = sequence(seed, volume, number)[start : start + QUERY_BASES]
        lines.append(b">%d.%d.%d\n%s\n" % (volume, number, start + 1, part))
    return b"".join(lines)


def volumes(layout: Layout, osts: int, count: int, volume_bytes: int) -> list[Volume]:
    """Data of so many volumes of one size, in a layout: where each lies, in the order of the data.

    A volume is of the segment in which, in nominal terms, it begins; a segment's volumes go round its OSTs, which are
    those of a striped file. Raises Refusal where stripe counts become the same, or a segment is left without a volume.
    """
    volumes: list[Volume] = []
    first = 0
    for number, (stripes, (end, _, _)) in enumerate(zip(counts(layout, osts), layout.segments)):
        if end is None:
            stop = count
        else:
            stop = min(count, -(-end * count // layout.nominal_bytes))
        begin = len(volumes)
        if stop <= begin:
            raise Refusal(
                f"pattern {layout.pattern}: none of {count} volumes begins in its segment {number + 1}: more volumes "
                "are needed"
            )
        for index in range(begin, stop):
            ost = (first + (index - begin) % stripes) % osts
            volumes.append(Volume(index * volume_bytes, (index + 1) * volume_bytes, number, ost))
        first += stripes
    return volumes
