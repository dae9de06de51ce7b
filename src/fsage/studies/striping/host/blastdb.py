"""Volumes of a nucleotide database, made of seeded sequences and kept in a target's home until its release."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fsage.host.system import places
from fsage.host.system.files import read_json, write_json
from fsage.host.system.shell import run
from fsage.host.targets import claims
from fsage.host.targets.target import Target
from fsage.model import tools
from fsage.model.errors import Failure
from fsage.studies.striping.model import sequences

OPTIONS = ("-dbtype", "nucl", "-blastdb_version", "4")


def made(
    target: Target, seed: int | None, volumes: int, each: int, check_lease: Callable[[], None]
) -> dict[str, object]:
    """Make `volumes` volumes of `each` sequences in the target's home, unless they are there already.

    Returns the parameters, `bytes` (of all sequences as packed) and `digest` (of all .nsq). `check_lease` is called
    before each volume. Raises Failure.
    """
    place, version = target.home / claims.KEPT, target.claim["tools"].get("makeblastdb")
    parameters = {"seed": seed, "sequences": each, "count": volumes, "makeblastdb": version}
    noted = read_json(place / "made.json")
    if noted and noted.items() >= parameters.items():
        return dict(noted)
    places.remove(place)
    places.make(place)
    size, free = each * sequences.PACKED_BYTES * volumes, shutil.disk_usage(place).free
    if size + 4 * sequences.PACKED_BYTES * each * _at_once() > free:
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
        with open(place / f"{sequences.name_of(number)}.nsq", "rb") as packed:
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
    base = place / sequences.name_of(number)
    text = base.with_suffix(".fa")
    with open(text, "wb") as out:
        out.writelines(sequences.fasta(seed, number, count))
    start = tools.start(target.claim, "makeblastdb", str(place))
    options = [*OPTIONS, "-title", base.name, "-out", str(base), "-logfile", os.devnull]
    run([*start, "-in", str(text), *options])
    text.unlink()
    packed = base.with_suffix(".nsq")
    if not packed.exists() or packed.stat().st_size < count * sequences.PACKED_BYTES:
        raise Failure(
            f"makeblastdb ended well, but {packed} does not hold {count * sequences.PACKED_BYTES} bytes of sequences"
        )
