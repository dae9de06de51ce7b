"""Step `database`: a nucleotide database for BLAST, in volumes that lie as the state's layout says.

`makeblastdb` makes the volumes once for a claimed target, from seeded sequences; each state has a copy, so that every
layout holds the same bytes (the index files name the date). `blastn` maps whole files: a volume's three files lie on
one OST of a target with stores; on Lustre they have their segment's stripes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fsage.base import MIB, Failure, Refusal
from fsage.base.shell import run
from fsage.host.lustre import stripes
from fsage.host.stores import filesystems
from fsage.host.structure import Work, files
from fsage.host.structure.quota import Quota
from fsage.host.system import places
from fsage.host.system.files import read_json, write_json
from fsage.host.targets import claims
from fsage.host.targets.target import Target
from fsage.model import striping, tools
from fsage.model.declaration import lustre_of
from fsage.model.structure import Shard, Step
from fsage.model.target import Striping

from . import model
from .model import Database, base_of, queries_at


def database(step: Database, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Make the volumes if they are not there from before, copy each to its place, and note where that is."""
    try:
        volumes = step.lying(target.claim)
    except Refusal as why:
        return Work(0, {"unsupported": str(why)})
    each = step.sequences(target.claim)
    lustre = target.has_osts
    declared = lustre_of(target.spec) if lustre else None
    if declared and declared["osts"]:  # in the order of the list, each file of a directory begins on the same OST
        return Work(0, {"unsupported": "lustre.osts gives all volumes of a segment the same OSTs: declare a pool"})
    made = make_once(target, step.seed, step.volumes, each, check_lease)
    quota = Quota(target)
    for number in range(len(step.segments)):
        files.make_room(target.mounts, number + 1)
        if declared:
            stripes.set_on(target.mounts[0] / "filler" / f"g{number + 1}", _striping(step, target, number), declared)
    noted: list[tuple[int, int | None]] = [(volume.segment, None if lustre else volume.ost) for volume in volumes]
    with filesystems.one_cpu():
        for number, (segment, ost) in enumerate(noted):
            check_lease()
            base = base_of(target.mounts, number, segment, ost)
            for suffix in model.SUFFIXES:
                source = target.home / claims.KEPT / f"{model.name_of(number)}{suffix}"
                quota.copy(source, base.with_name(base.name + suffix), whole=not lustre)
        text = model.queries(step.seed, step.queries, step.volumes, each)
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
        usable = target.claim["lustre"].get("usable", ())
        placement = stripes.of_files(packed, _striping(step, target, number), osts, allowed=usable)
        if placement["astray"]:
            raise Failure(f"{len(placement['astray'])} volumes lie elsewhere: {placement['astray'][0]}")


OPTIONS = ("-dbtype", "nucl", "-blastdb_version", "4")


def make_once(
    target: Target, seed: int | None, volumes: int, each: int, check_lease: Callable[[], None]
) -> dict[str, object]:
    """Make `volumes` volumes of `each` sequences in the target's home, unless they are there already.

    Returns the parameters, `bytes` (of all sequences as packed) and `digest` (of all .nsq). `check_lease` is called
    before each volume. Raises Failure.
    """
    place = target.home / claims.KEPT
    version = target.claim["tools"].get("makeblastdb")
    parameters = {"seed": seed, "sequences": each, "count": volumes, "makeblastdb": version}
    noted = read_json(place / "made.json")
    if noted and noted.items() >= parameters.items():
        return dict(noted)
    places.remove(place)
    places.make(place)
    size = each * model.PACKED_BYTES * volumes
    free = shutil.disk_usage(place).free
    if size + 4 * model.PACKED_BYTES * each * _at_once() > free:
        raise Failure(f"{place} has {free} bytes free, and the database takes {size}: declare another home")
    with ThreadPoolExecutor(_at_once()) as pool:
        making = [pool.submit(_make, target, seed, number, each) for number in range(volumes)]
        try:
            for volume in making:
                check_lease()
                volume.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    digest = hashlib.blake2b(digest_size=16)
    for number in range(volumes):
        with open(place / f"{model.name_of(number)}.nsq", "rb") as packed:
            while block := packed.read(1 << 20):
                digest.update(block)
    noted = {**parameters, "bytes": size, "digest": digest.hexdigest()}
    write_json(place / "made.json", noted)
    return noted


def _at_once() -> int:
    return os.cpu_count() or 1


def _make(target: Target, seed: int | None, number: int, count: int) -> None:
    """Make one volume by makeblastdb, and verify its size. Raises Failure."""
    place = target.home / claims.KEPT
    base = place / model.name_of(number)
    text = base.with_suffix(".fa")
    with open(text, "wb") as out:
        out.writelines(model.fasta(seed, number, count))
    start = tools.start(target.claim, "makeblastdb", str(place))
    options = [*OPTIONS, "-title", base.name, "-out", str(base), "-logfile", os.devnull]
    run([*start, "-in", str(text), *options], timeout=None)  # as long as the database is large
    text.unlink()
    packed = base.with_suffix(".nsq")
    if not packed.exists() or packed.stat().st_size < count * model.PACKED_BYTES:
        raise Failure(
            f"makeblastdb ended well, but {packed} does not hold {count * model.PACKED_BYTES} bytes of sequences"
        )
