"""Step `database`: a nucleotide database for BLAST, in volumes that lie as the state's layout says.

`makeblastdb` makes the volumes once for a claimed target, from seeded sequences; each state has a copy, so that every
layout holds the same bytes (the index files name the date). `blastn` maps whole files: a volume's three files lie on
one OST of a target with stores; on Lustre they have their segment's stripes.

Keys: those of `stripe`, the layout; volumes and queries (how many there are of each), percent (of the striped file's
size) and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fsage.agent import filesystems, striping
from fsage.agent.blast import blastdb, sequences
from fsage.agent.declaration import MIB, Striping
from fsage.agent.errors import Failure, Refusal
from fsage.agent.lustre import stripes
from fsage.agent.room import Room
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False


def describe(step: dict) -> str:
    """The step in words."""
    return f"make a database of {step['volumes']} volumes, laid out as {step['pattern']}"


def sequences_of(step: Mapping[str, Any], claim: Mapping[str, Any]) -> int:
    """How many sequences each volume has: the database is of `percent` of the target's striped file, or a little less.

    Raises Refusal where that is none, or more than makeblastdb keeps in one volume.
    """
    whole = striping.file_bytes(claim) * step["percent"] // 100
    count = whole // step["volumes"] // blastdb.PACKED_BYTES
    if not 0 < count * blastdb.PACKED_BYTES < blastdb.MOST_BYTES:
        raise Refusal(
            f"a database of {whole} bytes in {step['volumes']} volumes: each must be of "
            f"{blastdb.PACKED_BYTES} to {blastdb.MOST_BYTES} bytes; declare another amount_mib for the target, or "
            "another number of volumes for the study"
        )
    return count


def lying(step: Mapping[str, Any], claim: Mapping[str, Any]) -> list[striping.Volume]:
    """The volumes of a step on a claimed target. Raises Refusal where the target cannot have them in this layout."""
    size = sequences_of(step, claim) * blastdb.PACKED_BYTES
    return striping.volumes(step, striping.osts_of(claim), step["volumes"], size)


def base_of(mounts: Sequence[Path], number: int, segment: int, ost: int | None) -> Path:
    """The path of a volume without its files' suffixes; on Lustre, which chooses OSTs, `ost` does not matter."""
    return mounts[(ost or 0) % len(mounts)] / "filler" / f"g{segment + 1}" / blastdb.name_of(number)


def queries_at(mounts: Sequence[Path]) -> Path:
    """Where the queries lie."""
    return mounts[0] / "filler" / "g1" / "queries.fa"


def work(target: Target, step: dict, done: list[dict], shard: dict, check_lease: Callable[[], None]) -> dict:
    """Make the volumes if they are not there from before, copy each to its place, and note where that is."""
    try:
        volumes = lying(step, target.claim)
    except Refusal as why:
        return {"files": 0, "unsupported": str(why)}
    each = sequences_of(step, target.claim)
    made = blastdb.made(target, step["seed"], step["volumes"], each, check_lease)
    lustre = target.has_osts
    room = Room(target)
    for number in range(len(step["segments"])):
        files.make_room(target.mounts, number + 1)
        if lustre:
            stripes.set_on(target.mounts[0] / "filler" / f"g{number + 1}", _striping(step, target, number))
    noted: list[tuple[int, int | None]] = [(volume.segment, None if lustre else volume.ost) for volume in volumes]
    with filesystems.one_cpu():
        for number, (segment, ost) in enumerate(noted):
            check_lease()
            base = base_of(target.mounts, number, segment, ost)
            for suffix in blastdb.SUFFIXES:
                source = target.home / blastdb.PLACE / f"{blastdb.name_of(number)}{suffix}"
                room.copy(source, base.with_name(base.name + suffix), whole=not lustre)
        text = sequences.queries(step["seed"], step["queries"], step["volumes"], each)
        room.note(queries_at(target.mounts), text)
    there = named(target.mounts, {"volumes": noted})
    if lustre:
        _verify_stripes(target, step, there)
    return {"files": len(there), "volumes": noted, **made}


def named(mounts: list[Path], noted: dict) -> list[Path]:
    """All files of the volumes, and the queries; none where the target cannot have the layout."""
    if "unsupported" in noted:
        return []
    bases = [base_of(mounts, number, *place) for number, place in enumerate(noted["volumes"])]
    return [base.with_name(base.name + suffix) for base in bases for suffix in blastdb.SUFFIXES] + [queries_at(mounts)]


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """Its files have names of their own."""


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """No share of the capacity is asked for."""


def _striping(step: dict, target: Target, number: int) -> Striping:
    """The striping of the files of one segment, as a target's declaration has it."""
    count = striping.counts(step, striping.osts_of(target.claim))[number]
    return {"stripe_count": count, "stripe_size_mib": step["segments"][number][2] // MIB, "first_ost": stripes.ANY}


def _verify_stripes(target: Target, step: dict, there: Sequence[Path]) -> None:
    """`Failure` where volumes of a segment, a sample of them, have other stripes than it."""
    osts = striping.osts_of(target.claim)
    for number in range(len(step["segments"])):
        packed = [path for path in there if path.suffix == ".nsq" and path.parent.name == f"g{number + 1}"]
        found = stripes.placement(packed, _striping(step, target, number), osts)
        if found["astray"]:
            raise Failure(f"{len(found['astray'])} volumes lie elsewhere: {found['astray'][0]}")
