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
from functools import partial
from pathlib import Path

from fsage.api.host import Quota, Target, Work, one_cpu, run
from fsage.api.model import Failure, Json, Refusal, Shard, Step, tools
from fsage.studies.striping.host import astray, stripe_folder

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
    if target.osts.listed:  # in the order of the list, each file of a directory begins on the same OST
        return Work(0, {"unsupported": "lustre.osts gives all volumes of a segment the same OSTs: declare a pool"})
    version = target.claim["tools"].get("makeblastdb")
    parameters = {"seed": step.seed, "sequences": each, "count": step.volumes, "makeblastdb": version}
    kept, made = target.made_once(parameters, partial(_make_all, target, step, each, check_lease))
    quota = Quota(target)
    for number in range(len(step.segments)):
        quota.make_room(number + 1)
        if lustre:
            stripe_folder(target.mounts[0] / "filler" / f"g{number + 1}", step, target, number)
    noted: list[tuple[int, int | None]] = [(volume.segment, None if lustre else volume.ost) for volume in volumes]
    with one_cpu():
        for number, (segment, ost) in enumerate(noted):
            check_lease()
            base = base_of(target.mounts, number, segment, ost)
            for suffix in model.SUFFIXES:
                source = kept / f"{model.name_of(number)}{suffix}"
                quota.copy(source, base.with_name(base.name + suffix), whole=not lustre)
        text = model.queries(step.seed, step.queries, step.volumes, each)
        quota.note(queries_at(target.mounts), text)
    paths = step.named(target.mounts, {"volumes": noted})
    if lustre:
        _verify_stripes(step, target, paths)
    return Work(len(paths), {"volumes": [list(place) for place in noted], **made})


def _verify_stripes(step: Database, target: Target, paths: Sequence[Path]) -> None:
    """`Failure` where volumes of a segment, a sample of them, have other stripes than it."""
    for number in range(len(step.segments)):
        packed = [path for path in paths if path.suffix == ".nsq" and path.parent.name == f"g{number + 1}"]
        elsewhere = astray(packed, step, target, number)
        if elsewhere:
            raise Failure(f"{len(elsewhere)} volumes lie elsewhere: {elsewhere[0]}")


OPTIONS = ("-dbtype", "nucl", "-blastdb_version", "4")


def _make_all(target: Target, step: Database, each: int, check_lease: Callable[[], None], place: Path) -> Json:
    """Make the volumes of `each` sequences in a folder.

    Returns `bytes` (of all sequences as packed) and `digest` (of all .nsq). `check_lease` is called before each volume.
    Raises Failure.
    """
    size = each * model.PACKED_BYTES * step.volumes
    free = shutil.disk_usage(place).free
    if size + 4 * model.PACKED_BYTES * each * _at_once() > free:
        raise Failure(f"{place} has {free} bytes free, and the database takes {size}: declare another home")
    with ThreadPoolExecutor(_at_once()) as pool:
        making = [pool.submit(_make, place, target, step.seed, number, each) for number in range(step.volumes)]
        try:
            for volume in making:
                check_lease()
                volume.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    digest = hashlib.blake2b(digest_size=16)
    for number in range(step.volumes):
        with open(place / f"{model.name_of(number)}.nsq", "rb") as packed:
            while block := packed.read(1 << 20):
                digest.update(block)
    return {"bytes": size, "digest": digest.hexdigest()}


def _at_once() -> int:
    return os.cpu_count() or 1


def _make(place: Path, target: Target, seed: int | None, number: int, count: int) -> None:
    """Make one volume by makeblastdb, and verify its size. Raises Failure."""
    base = place / model.name_of(number)
    text = base.with_suffix(".fa")
    with open(text, "wb") as out:
        out.writelines(model.fasta(seed, number, count))
    start = tools.tool_command(target.claim, "makeblastdb", str(place))
    options = [*OPTIONS, "-title", base.name, "-out", str(base), "-logfile", os.devnull]
    run([*start, "-in", str(text), *options], timeout=None)  # as long as the database is large
    text.unlink()
    packed = base.with_suffix(".nsq")
    if not packed.exists() or packed.stat().st_size < count * model.PACKED_BYTES:
        raise Failure(
            f"makeblastdb ended well, but {packed} does not hold {count * model.PACKED_BYTES} bytes of sequences"
        )
