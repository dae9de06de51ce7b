"""Step `database`: a nucleotide database for BLAST, in volumes that lie as the state's layout says.

`makeblastdb` makes the volumes once for a claimed target, from seeded sequences; each state has a copy, so that every
layout holds the same bytes (the index files name the date). `blastn` maps whole files: a volume's three files lie on
one OST of a target with stores; on Lustre they have their segment's stripes.

Keys: those of `stripe`, the layout; volumes, queries (how many there are of each) and seed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fsage.agent import containers, filesystems, sequences, striping
from fsage.agent.errors import Failure, Refusal
from fsage.agent.files import read_json, write_json
from fsage.agent.lustre import stripes
from fsage.agent.shell import run
from fsage.agent.structure import files
from fsage.agent.target import Target

SHARDED = False
PLACE = "database"
"""The folder in the target's home in which the volumes are made, until the target is released."""
SUFFIXES = (".nhr", ".nin", ".nsq")  # of version 4 of the format: headers, index, packed sequences
MOST_BYTES = 10**9  # makeblastdb would cut a larger volume itself
PACKED_BYTES = sequences.BASES // 4


def said(step: dict) -> str:
    """The step in words."""
    return f"make a database of {step['volumes']} volumes, laid out as {step['pattern']}"


def sequences_of(step: Mapping[str, Any], claim: Mapping[str, Any]) -> int:
    """How many sequences each volume has: the database is as large as the target's striped file, or a little less.

    Raises Refusal where that is none, or more than makeblastdb keeps in one volume.
    """
    count = striping.file_bytes(claim) // step["volumes"] // PACKED_BYTES
    if not 0 < count * PACKED_BYTES < MOST_BYTES:
        raise Refusal(
            f"a database of {striping.file_bytes(claim)} bytes in {step['volumes']} volumes: each must be of "
            f"{PACKED_BYTES} to {MOST_BYTES} bytes; declare another amount_mib for the target, or another number of "
            "volumes for the study"
        )
    return count


def lying(step: Mapping[str, Any], claim: Mapping[str, Any]) -> list[striping.Volume]:
    """The volumes of a step on a claimed target. Raises Refusal where the target cannot have them in this layout."""
    size = sequences_of(step, claim) * PACKED_BYTES
    return striping.volumes(step, striping.osts_of(claim), step["volumes"], size)


def base_of(mounts: Sequence[Path], number: int, segment: int, ost: int | None) -> Path:
    """The path of a volume without its files' suffixes; on Lustre, which chooses OSTs, `ost` does not matter."""
    return mounts[(ost or 0) % len(mounts)] / "filler" / f"g{segment + 1}" / f"volume{number:04d}"


def queries_at(mounts: Sequence[Path]) -> Path:
    """Where the queries lie."""
    return mounts[0] / "filler" / "g1" / "queries.fa"


def work(target: Target, step: dict, done: list[dict], shard: dict, go_on: Callable[[], None]) -> dict:
    """Make the volumes if they are not there from before, copy each to its place, and note where that is."""
    try:
        volumes = lying(step, target.claim)
    except Refusal as why:
        return {"files": 0, "unsupported": str(why)}
    made = _made(target, step, go_on)
    lustre = target.kind == "lustre"
    for number in range(len(step["segments"])):
        files.make_room(target.mounts, number + 1)
        if lustre:
            stripes.compose(target.mounts[0] / "filler" / f"g{number + 1}", _alone(step, target, number))
    noted = [[volume.segment, None if lustre else volume.ost] for volume in volumes]
    with filesystems.one_cpu():
        for number, (segment, ost) in enumerate(noted):
            go_on()
            base = base_of(target.mounts, number, segment, ost)
            for suffix in SUFFIXES:
                source = target.home / PLACE / f"volume{number:04d}{suffix}"
                _copy(source, base.with_name(base.name + suffix), allocate=not lustre)
        text = sequences.queries(step["seed"], step["queries"], step["volumes"], made["sequences"])
        queries_at(target.mounts).write_bytes(text)
    if lustre:
        _verify_stripes(target, step, noted)
    return {"files": len(noted) * len(SUFFIXES) + 1, "volumes": noted, **made}


def named(mounts: list[Path], noted: dict) -> list[Path]:
    """All files of the volumes, and the queries; none where the target cannot have the layout."""
    if "unsupported" in noted:
        return []
    bases = [base_of(mounts, number, *place) for number, place in enumerate(noted["volumes"])]
    return [base.with_name(base.name + suffix) for base in bases for suffix in SUFFIXES] + [queries_at(mounts)]


def expect(there: dict, step: dict, capacity_bytes: int) -> None:
    """Its files have names of their own."""


def achieve(shares: list[dict], step: dict, done: list[dict], capacity_bytes: int) -> None:
    """No share of the capacity is asked for."""


def _made(target: Target, step: dict, go_on: Callable[[], None]) -> dict[str, Any]:
    """Have the volumes in the target's home: sequences in each, their bytes together, and the digest of these bytes."""
    place, version = target.home / PLACE, target.claim["tools"].get("makeblastdb")
    each = sequences_of(step, target.claim)
    asked = {"seed": step["seed"], "sequences": each, "count": step["volumes"], "makeblastdb": version}
    made = read_json(place / "made.json")
    if made and made.items() >= asked.items():
        return made
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    size, free = each * PACKED_BYTES * step["volumes"], shutil.disk_usage(place).free
    if size + 4 * PACKED_BYTES * each * _at_once() > free:
        raise Failure(f"{place} has {free} bytes free, and the database takes {size}: declare another home")
    with ThreadPoolExecutor(_at_once()) as pool:
        making = [pool.submit(_make, target, step["seed"], number, each) for number in range(step["volumes"])]
        try:
            for one in making:
                go_on()
                one.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    digest = hashlib.blake2b(digest_size=16)
    for number in range(step["volumes"]):
        with open(place / f"volume{number:04d}.nsq", "rb") as packed:
            while block := packed.read(1 << 20):
                digest.update(block)
    made = {**asked, "bytes": size, "digest": digest.hexdigest()}
    write_json(place / "made.json", made)
    return made


def _at_once() -> int:
    return os.cpu_count() or 1


def _make(target: Target, seed: int, number: int, count: int) -> None:
    """One volume, by makeblastdb, and that it came out as asked."""
    place = target.home / PLACE
    base = place / f"volume{number:04d}"
    text = base.with_suffix(".fa")
    with open(text, "wb") as out:
        out.writelines(sequences.fasta(seed, number, count))
    start = containers.start(target.claim, "makeblastdb", str(place))
    options = ["-dbtype", "nucl", "-blastdb_version", "4", "-title", base.name, "-out", str(base), "-logfile", os.devnull]
    run([*start, "-in", str(text), *options])
    text.unlink()
    packed = base.with_suffix(".nsq")
    if not packed.exists() or packed.stat().st_size < count * PACKED_BYTES:
        raise Failure(f"makeblastdb ended well, but {packed} does not hold {count * PACKED_BYTES} bytes of sequences")


def _copy(source: Path, path: Path, allocate: bool) -> None:
    if allocate:  # in one piece, the same each time
        files.fallocate(path, source.stat().st_size)
    with open(source, "rb") as packed, open(path, "r+b" if allocate else "xb") as out:
        shutil.copyfileobj(packed, out, files.WRITE_BYTES)
        out.flush()
        os.fsync(out.fileno())


def _alone(step: dict, target: Target, number: int) -> list[striping.Segment]:
    """The layout of the files of one segment: its stripes from the first byte to the last."""
    count = striping.counts(step, striping.osts_of(target.claim))[number]
    return [striping.Segment(0, MOST_BYTES, count, step["segments"][number][2], 0)]


def _verify_stripes(target: Target, step: dict, noted: list[list]) -> None:
    """`Failure` where volumes of a segment, a sample of them, have other stripes than it."""
    for number in range(len(step["segments"])):
        bases = [base_of(target.mounts, *one) for one in ((n, *place) for n, place in enumerate(noted)) if one[1] == number]
        packed = [base.with_suffix(".nsq") for base in bases]
        osts = striping.osts_of(target.claim)
        found = stripes.placement(packed, target.spec["lustre"], osts, _alone(step, target, number))
        if found["astray"]:
            raise Failure(f"{len(found['astray'])} volumes lie elsewhere: {found['astray'][0]}")
