"""Step `database`: a nucleotide database for BLAST, in volumes that lie as the state's layout says.

`makeblastdb` makes the volumes once for a claimed target, from seeded sequences; each state has a copy, so that every
layout holds the same bytes (the index files name the date). `blastn` maps whole files: a volume's three files lie on
one OST of a target with stores; on Lustre they have their segment's stripes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.host.lustre import stripes
from fsage.host.stores import filesystems
from fsage.host.structure import Work, files
from fsage.host.structure.quota import Quota
from fsage.host.targets import claims
from fsage.model import striping
from fsage.model.declaration import MIB
from fsage.model.errors import Failure, Refusal
from fsage.model.structure import Shard, Step
from fsage.model.target import Striping
from fsage.studies.striping.host import blastdb
from fsage.studies.striping.model import base_of, queries_at, sequences

if TYPE_CHECKING:
    from fsage.host.targets.target import Target
from fsage.studies.striping.model import Database


def work(step: Database, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Make the volumes if they are not there from before, copy each to its place, and note where that is."""
    try:
        volumes = step.lying(target.claim)
    except Refusal as why:
        return Work(0, {"unsupported": str(why)})
    each = step.sequences(target.claim)
    made = blastdb.made(target, step.seed, step.volumes, each, check_lease)
    lustre = target.has_osts
    quota = Quota(target)
    for number in range(len(step.segments)):
        files.make_room(target.mounts, number + 1)
        if lustre:
            stripes.set_on(target.mounts[0] / "filler" / f"g{number + 1}", _striping(step, target, number))
    noted: list[tuple[int, int | None]] = [(volume.segment, None if lustre else volume.ost) for volume in volumes]
    with filesystems.one_cpu():
        for number, (segment, ost) in enumerate(noted):
            check_lease()
            base = base_of(target.mounts, number, segment, ost)
            for suffix in sequences.SUFFIXES:
                source = target.home / claims.KEPT / f"{sequences.name_of(number)}{suffix}"
                quota.copy(source, base.with_name(base.name + suffix), whole=not lustre)
        text = sequences.queries(step.seed, step.queries, step.volumes, each)
        quota.note(queries_at(target.mounts), text)
    paths = step.named(target.mounts, {"volumes": noted})
    if lustre:
        _verify_stripes(step, target, paths)
    return Work(len(paths), {"volumes": [list(place) for place in noted], **made})


def _striping(step: Database, target: Target, number: int) -> Striping:
    """The striping of the files of one segment, as a target's declaration has it."""
    count = striping.counts(step, striping.osts_of(target.claim))[number]
    size_mib = step.segments[number].stripe_bytes // MIB
    return {"stripe_count": count, "stripe_size_mib": size_mib, "first_ost": stripes.ANY}


def _verify_stripes(step: Database, target: Target, paths: Sequence[Path]) -> None:
    """`Failure` where volumes of a segment, a sample of them, have other stripes than it."""
    osts = striping.osts_of(target.claim)
    for number in range(len(step.segments)):
        packed = [path for path in paths if path.suffix == ".nsq" and path.parent.name == f"g{number + 1}"]
        placement = stripes.of_files(packed, _striping(step, target, number), osts)
        if placement["astray"]:
            raise Failure(f"{len(placement['astray'])} volumes lie elsewhere: {placement['astray'][0]}")
