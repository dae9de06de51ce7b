"""What the target's layout is: a cheap fingerprint for every cell, a digest of all extents twice a session, and the
layout of all stores as evidence of a state.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fsage.host.states.sample import Sample, seen
from fsage.host.stores import fiemap, filesystems
from fsage.host.structure import fillers
from fsage.host.targets.target import Target
from fsage.model.evidence.fragmentation import Extent, FileLayouts
from fsage.model.evidence.store import SCHEMA
from fsage.model.observation import Extents
from fsage.model.typed import Json


def fingerprint(target: Target, sample: Sample | None = None) -> Json:
    """Names, inodes, sizes, blocks and mtimes of all filler files, with the free space of every store.

    Each file is added to `sample`. Returns {"hash", "files", "bytes", "held_bytes" (of their blocks), "free_bytes",
    "counted" (Free.counted by store), "seconds"}, on Lustre also "osts", the used bytes of each OST.

    Free space is no part of the hash on btrfs, whose statfs lags behind its transactions, nor on a directory, where
    others write too. On Lustre it is compared with a tolerance (lustre.space.as_left).
    """
    began = time.monotonic()
    digest = hashlib.blake2b(digest_size=16)
    files = total = held = free = 0
    osts: dict[str, int] = {}
    counted: list[str | None] = []
    for mount in target.mounts:
        for entry in fillers(mount):
            stat = entry.stat()
            of_file = seen(stat)
            if sample:
                sample.add(entry.path, of_file)
            digest.update(f"{(entry.path[len(str(mount)) :], *of_file)}\n".encode())
            files += 1
            total += stat.st_size
            held += stat.st_blocks * 512
        space = target.free(mount)
        free += space.bytes
        osts.update(space.osts or {})
        counted.append(space.counted)
        if space.counted is not None:
            digest.update(f"{space.counted}\n".encode())
    return {
        "hash": digest.hexdigest(),
        "files": files,
        "bytes": total,
        "held_bytes": held,
        "free_bytes": free,
        "counted": counted,
        **({"osts": osts} if osts else {}),
        "seconds": time.monotonic() - began,
    }


def digest(mounts: list[Path]) -> Json:
    """A digest of the extents of every filler file: {"hash", "files", "extents", "seconds"}.

    The same hash means the same layout instance, extent by extent. A file system without FIEMAP gives the hash None,
    and its OSError under "error".
    """
    began = time.monotonic()
    whole = hashlib.blake2b(digest_size=16)
    files = count = 0
    for mount in mounts:
        for entry in fillers(mount):
            try:
                logical, physical, length, _ = fiemap.columns(entry.path)
            except OSError as error:
                taken_s = time.monotonic() - began
                return {"hash": None, "files": files, "extents": None, "seconds": taken_s, "error": error}
            whole.update(f"{entry.path[len(str(mount)) :]} {len(length)}\n".encode())
            whole.update(array("Q", [*logical, *physical, *length]).tobytes())
            files += 1
            count += len(length)
    return {"hash": whole.hexdigest(), "files": files, "extents": count, "seconds": time.monotonic() - began}


def layout_of(files: list[Path], target: Target) -> Extents | None:
    """The layout of measured files: FileLayouts.summary, digest, and position on the device (0 first block, 1 last).

    `mean_position` and `position_sd`: mean and standard deviation of the positions of all bytes. `jumps`: within files,
    from an extent's end to the next one's beginning, those of more than `jump_bytes`, which the device charges for.
    Where the file system keeps places on the device to itself there is neither. None: it has no FIEMAP.
    """
    whole = hashlib.blake2b(digest_size=16)
    layouts = FileLayouts(os.statvfs(target.mounts[0]).f_frsize)
    total = 0
    weighted = 0.0
    squares = 0.0
    jumps = 0
    jump_bytes = target.model.jump_bytes(target.model.claimed)
    known = True
    try:
        for path in sorted(files):
            pieces = fiemap.extents(path)
            layouts.add(pieces)
            whole.update(f"{path.name} {[piece[:3] for piece in pieces]}\n".encode())
            try:
                pieces = _on_device(target, path, pieces)
            except OSError:  # who asks is not root
                known = False
            jumps += sum(
                abs(piece.physical - before.physical - before.length) > jump_bytes
                for before, piece in zip(pieces, pieces[1:])
            )
            size_bytes = _device_bytes(path)
            for piece in pieces:
                middle = (piece.physical + piece.length / 2) / size_bytes
                own = piece.length / size_bytes
                total += piece.length
                weighted += piece.length * middle
                squares += piece.length * (middle**2 + own**2 / 12)  # bytes spread evenly over the extent
    except OSError:
        return None
    mean = weighted / total if total and known else None
    placed: Any = {
        **layouts.summary(),
        "mean_position": mean,
        "position_sd": None if mean is None else math.sqrt(max(0.0, squares / total - mean**2)),
        **({"jumps": jumps, "jump_bytes": jump_bytes} if known else {}),
        "digest": whole.hexdigest(),
    }
    result: Extents = placed
    return result


def _on_device(target: Target, path: Path, pieces: list[Extent]) -> list[Extent]:
    system = filesystems.like(target.filesystem)
    if system:
        return system.on_device(path, pieces)
    return pieces


def _device_bytes(path: Path) -> int:
    """Size of the block device below a file, or of its file system where sysfs knows no such device (btrfs)."""
    number = os.stat(path).st_dev
    try:
        sectors = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/size").read_text(encoding="ascii")
        return int(sectors) * 512
    except OSError:
        store = os.statvfs(path)
        return store.f_blocks * store.f_frsize


def layout(target: Target, osts: Sequence[dict[str, object]] = ()) -> dict[str, object]:
    """The layout of free space and filler files on every store: {"schema", "seconds", "stores": [Store.summary]}.

    What cannot be read is absent, with the reason. The caller has synchronised the target. On Lustre the first stores
    are `osts`, as their servers read them, and the last one has the files.
    """
    began = time.monotonic()
    stores = list(osts)
    for number, mount in enumerate(target.mounts):
        store = target.free_space(number)
        try:
            layouts = FileLayouts(os.statvfs(mount).f_frsize)
            for entry in fillers(mount):
                layouts.add(fiemap.extents(entry.path))
            store.found["files"] = {"filler": layouts.summary()}
            store.source["files"] = "FIEMAP"
        except OSError as error:
            store.absent["files"] = target.why_no_extents(error)
        stores.append(store.summary(len(stores)))
    return {"schema": SCHEMA, "seconds": time.monotonic() - began, "stores": stores}
