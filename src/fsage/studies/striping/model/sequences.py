"""Seeded nucleotide sequences, as FASTA: a database's volumes, and queries that are parts of them.

Bases are drawn, so that a part of some hundred bases is found where it is from and nowhere else.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

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
        number, start = int(draw() * sequences), int(draw() * (BASES - QUERY_BASES))
        part = sequence(seed, volume, number)[start : start + QUERY_BASES]
        lines.append(b">%d.%d.%d\n%s\n" % (volume, number, start + 1, part))
    return b"".join(lines)
