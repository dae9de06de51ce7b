"""Whether a target is still in the state that its token names; what a killed command left is cleared away.

The layout has a cheap fingerprint for every cell, a digest of all extents twice a session, and the layout of all
stores as evidence of a state.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fsage.base import Failure, Json, JsonView, Refusal
from fsage.host import filesystems
from fsage.host.instruments import cleanup
from fsage.host.structure import fillers
from fsage.host.system import caches, kernel, places
from fsage.host.targets import Target, budget, claims
from fsage.host.targets.budget import Wrong, nothing
from fsage.layouts import fiemap
from fsage.layouts.fragmentation import FileLayouts
from fsage.layouts.store import SCHEMA
from fsage.model import counting
from fsage.model.claim import BUILDING, MEASURING, READY, Token
from fsage.model.device import PLACES
from fsage.model.observation import Extents, Layout

Seen = tuple[int, int, int, int]
"""A file's inode, size, blocks, and when it was written last (ns)."""


def seen(stat: os.stat_result) -> Seen:
    """The fields of a stat that change when a file changes."""
    return stat.st_ino, stat.st_size, stat.st_blocks, stat.st_mtime_ns


def fingerprint(target: Target, add: Callable[[str, Seen], None] = lambda path, state: None) -> Json:
    """Names, inodes, sizes, blocks and mtimes of all filler files, with the free space of every store.

    `add` is called with each file. Returns {"hash", "files", "bytes", "held_bytes" (of their blocks), "free_bytes",
    "counted" (Free.counted by store)}, on Lustre also "osts", the used bytes of each OST.

    Free space is no part of the hash on btrfs, whose statfs lags behind its transactions, nor on a directory, where
    others write too. On Lustre it is compared with a tolerance (targets.budget.as_left).
    """
    digest = hashlib.blake2b(digest_size=16)
    files = total = allocated_bytes = free = 0
    osts: dict[str, int] = {}
    counted: list[str | None] = []
    for mount in target.mounts:
        for entry in fillers(mount):
            stat = entry.stat(follow_symlinks=False)
            of_file = seen(stat)
            add(entry.path, of_file)
            digest.update(f"{(entry.path[len(str(mount)) :], *of_file)}\n".encode())
            files += 1
            total += stat.st_size
            allocated_bytes += stat.st_blocks * 512
        space = target.free(mount)
        free += space.bytes
        osts.update(space.osts or {})
        counted.append(space.counted)
        if space.counted is not None:
            digest.update(f"{space.counted}\n".encode())
    prints = {
        "hash": digest.hexdigest(),
        "files": files,
        "bytes": total,
        "held_bytes": allocated_bytes,
        "free_bytes": free,
        "counted": counted,
    }
    if osts:
        prints["osts"] = osts
    return prints


def digest(mounts: list[Path]) -> Json:
    """A digest of the extents of every filler file: {"hash", "extents"}.

    The same hash means the same layout instance, extent by extent. A file system without FIEMAP gives the hash None,
    and its OSError under "error".
    """
    whole = hashlib.blake2b(digest_size=16)
    count = 0
    for mount in mounts:
        for entry in fillers(mount):
            try:
                logical, physical, length, _ = fiemap.columns(entry.path)
            except OSError as error:
                return {"hash": None, "extents": None, "error": error}
            whole.update(f"{entry.path[len(str(mount)) :]} {len(length)}\n".encode())
            whole.update(array("Q", [*logical, *physical, *length]).tobytes())
            count += len(length)
    return {"hash": whole.hexdigest(), "extents": count}


def layout_of(files: list[Path], target: Target) -> Extents | None:
    """The layout of measured files: FileLayouts.summary, digest, and position on the device (0 first block, 1 last).

    `mean_position` and `position_...`: moments of the positions of all bytes (device.Place). `jumps`: within files,
    from an extent's end to the next one's beginning, those of more than `jump_bytes`, which the device charges for.
    Where the file system keeps places on the device to itself there is neither. None: it has no FIEMAP.
    """
    whole = hashlib.blake2b(digest_size=16)
    layouts = FileLayouts(os.statvfs(target.mounts[0]).f_frsize)
    lies: list[tuple[float, float]] = []
    jumps = 0
    jump_bytes = target.model.jump_bytes
    known = True
    system = filesystems.like(target.filesystem)
    try:
        for path in sorted(files):
            pieces = fiemap.extents(path)
            layouts.add(pieces)
            whole.update(f"{path.name} {[piece[:3] for piece in pieces]}\n".encode())
            try:
                if system:
                    pieces = system.on_device(path, pieces)
            except OSError:  # who asks is not root
                known = False
            jumps += sum(
                abs(piece.physical - before.physical - before.length) > jump_bytes
                for before, piece in zip(pieces, pieces[1:])
            )
            size_bytes = _device_bytes(path)
            for piece in pieces:
                lies.append(((piece.physical + piece.length / 2) / size_bytes, piece.length / size_bytes))
    except OSError:
        return None
    where: Sequence[float | None] = [None] * len(PLACES)
    if lies and known and not target.has_osts:  # each OST counts blocks from its own beginning
        where = counting.place(lies)
    placed: Any = {**layouts.summary(), **dict(zip(PLACES, where)), "digest": whole.hexdigest()}
    if known:
        placed.update(jumps=jumps, jump_bytes=jump_bytes)
    result: Extents = placed
    return result


def _device_bytes(path: Path) -> int:
    """Size of the block device below a file, or of its file system where sysfs knows no such device (btrfs)."""
    number = kernel.shown_number(os.stat(path).st_dev)
    try:
        return int((kernel.folder_of(number) / "size").read_text()) * 512
    except OSError:
        store = os.statvfs(path)
        return store.f_blocks * store.f_frsize


def layout(target: Target, osts: Sequence[Json] = ()) -> Json:
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


def inspect(target: Target, whole: bool = False) -> tuple[Token | None, str | None]:
    """The target's token, or None, and why its state cannot be trusted, or None; never both None.

    A measurement that was killed leaves measured files behind: they are removed, and the layout is compared in full.
    `whole` compares in full in any case. Settings that a killed cell left on the device are restored.
    """
    mount = target.mounts[0]
    now = claims.read_token(mount)
    if now is None:
        return None, "the target carries no readable state token"
    if now.claim != target.claim["id"]:
        return None, f"the token belongs to another claim ({now.claim})"
    if now.status == BUILDING:
        return now, f"building its state was interrupted at epoch {now.epoch}"
    interrupted = now.status == MEASURING
    cleanup.undo_cell(target)
    if interrupted:
        try:
            remove_measured(target, now)
        except Failure as failure:
            return now, str(failure)
    print_now = fingerprint(target)
    why = differs(target, now, print_now)
    if why:
        return now, f"the target was changed since epoch {now.epoch}: {why}"
    if (whole or interrupted) and digest(target.mounts)["hash"] != now.digest:
        return now, f"the extents of the files are not those of epoch {now.epoch} (extent digest)"
    if interrupted:
        now = claims.token_changed(mount, now, status=READY)
    return now, None


def differs(target: Target, now: Token, seen: JsonView) -> str | None:
    """How a fingerprint (`seen`) differs from that in the token `now`; None when it does not."""
    if seen["hash"] != now.fingerprint:
        return (
            f"{seen['files']} files with {seen['free_bytes']} bytes free, where {now.files} and {now.free_bytes} "
            "were left"
        )
    if "osts" not in seen:
        return None
    return "; ".join(budget.moved(now.osts or {}, seen["osts"], target.osts.tolerance_bytes)) or None


def remove_measured(target: Target, now: Token | None = None) -> None:
    """Delete a cell's files and wait until their blocks are free, on Lustre by what the token says. Raises Failure."""
    target.refuse_unmounted()
    for mount in target.mounts:
        path = mount / "measured"  # the directory itself stays: a new one could get another place on the device
        target.take(path)
        with places.opened(mount) as store, places.inside(store, path.name, path, places.PRIVATE) as measured:
            places.empty(measured, path, spend=target.pace.spend)
        target.give(path)
    osts = now.osts if now else None
    settle(target, nothing if osts is None else budget.as_left(osts, target.osts.tolerance_bytes))


USAGE = re.compile(r"^usage:", re.IGNORECASE | re.MULTILINE)
"""What an mkfs prints after its reason: all options that it has."""


def format_again(target: Target, options: str) -> str | None:
    """Make the file system anew within a step, with options of mkfs; why it was made without them, or None.

    What a state has before its first step comes back: the directory of measured files, and the token.
    """
    now = claims.read_token(target.mounts[0])
    why = None
    try:
        target.format(options)
    except (Failure, Refusal) as error:
        target.format()
        why = USAGE.split(str(error))[0].strip()
    remove_measured(target)
    if now:
        claims.write_token(target.mounts[0], now)
    return why


def settle(target: Target, wrong: Wrong = nothing) -> None:
    """Complete the accounting of the target's file systems: flush data, metadata and deferred frees.

    On Lustre wait until `wrong` finds nothing wrong with the OSTs. Raises Failure.
    """
    for mount in target.mounts:
        caches.flush(mount)
    target.settle(wrong)


def layout_record(target: Target, now: Token) -> Layout:
    """The part of an observation that describes the layout."""
    return {
        "digest": now.digest,
        "filler_files": now.files,
        "filler_bytes": now.bytes,
        "filler_extents": now.extents,
        "capacity_bytes": target.capacity_bytes,
        "used_bytes": target.capacity_bytes - now.free_bytes if target.state_known else now.held_bytes,
        "free_bytes": now.free_bytes if target.state_known else target.capacity_bytes - now.held_bytes,
        "state_known": target.state_known,
        "generations": list(now.achieved),
        "steps": [step.to_json() for step in now.done],
        "notes": now.notes,
    }
