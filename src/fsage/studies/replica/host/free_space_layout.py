"""The free space of the one store of a target on which a layout is laid out.

The free-space layout: free space is laid out block by block like another file system's, and then compared.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.host.structure import files
from fsage.host.system import caches
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.evidence import extents
from fsage.model.evidence.extents import Extents, Head
from fsage.model.evidence.freespace import Counting
from fsage.model.structure import Notes
from fsage.studies.replica.host.punched import Punched
from fsage.studies.replica.host.taken import Taken
from fsage.studies.replica.host.whole_extents import WholeExtents


def check(target: Target) -> None:
    """Raise Failure where free space cannot be laid out on a target."""
    why = target.layout_unavailable_because
    if why:
        raise Failure(why)


def read(target: Target) -> tuple[Head, Extents]:
    """The device and its free extents, after a flush. Raises Failure."""
    check(target)
    flush(target)
    free: Extents = []
    store = target.laid_space(Counting(keep=lambda *ends: free.extend(zip(*ends))))
    why = store.absent.get("free_extents")
    if why:
        raise Failure(f"target {target.name}: its free extents cannot be read: {why}")
    sizes = store.found["device_bytes"], store.found["block_bytes"]
    return Head(*sizes, 0, store.filesystem, f"target {target.name} itself"), free


def flush(target: Target) -> None:
    """Flush all writes and deletions to the device. Raises OSError, Failure."""
    for mount in target.mounts:
        caches.flush(mount)
    target.settle()


LEAST = 0.9
"""A replica has at least this share of the free bytes in their places."""
SHOWN = 20
BITMAP = 256


def lay(
    target: Target,
    generation: int,
    name: str,
    layout: tuple[Head, Extents],
    joined: bool,
    check_lease: Callable[[], None],
    digest: str | None = None,
) -> Notes:
    """Lay out an empty target's free space as in `layout`, or as much in one run (`joined`); notes of that.

    `digest`: of the layout; what is laid by it may be kept. Notes: `files` made, `original` and `found` in short, and
    their `agreement`. Raises Failure.
    """
    head, original = layout
    usable, device_bytes = _fitting(target, head, name)
    copied = extents.common(original, usable)
    if not copied:
        raise Failure(f"layout {name} has no free block where target {target.name} can have one")
    try:
        method: Taken | Punched | WholeExtents
        if target.takes_blocks:
            method = Taken(target, digest, check_lease, copied, usable if joined else None)
        else:
            files.make_room(target.mounts, generation)
            way = Punched if target.frees_parts else WholeExtents
            method = way(target, generation, check_lease, copied, usable if joined else None)
        made = method.lay()
    except OSError as error:
        raise Failure(f"laying out {name} on target {target.name}: {error.strerror}") from error
    free, _ = _fitting(target, head, name)
    goal = method.wanted if joined else original
    notes: Notes = {
        "files": made,
        "held_by": method.held_by,
        "source": head.source,
        "filesystem": head.filesystem,
        "drawn": head.drawn,
        "original": _summary(original, head.device_bytes),
        "found": _summary(free, device_bytes),
        **agreement(goal, free, usable),
    }
    if notes["agree_share"] < LEAST:
        raise Failure(
            f"layout {name} on target {target.name}: {100 * notes['agree_share']:.1f}% of the free bytes lie where "
            f"they should, and a replica needs {100 * LEAST:.0f}%. Use a target with the original's file system "
            f"({head.filesystem or 'which its text does not name'}) and mkfs options"
        )
    return notes


def agreement(wanted: Extents, free: Extents, usable: Extents) -> dict[str, object]:
    """How far the free space agrees with the wanted one.

    `agree_share`: bytes free in both over bytes free in either. `metadata_bytes` should be free and hold the target's
    own metadata, `taken_bytes` something else (maps of extents), `left_bytes` are free and should not be. `differ`:
    the largest such ranges.
    """
    lacking = extents.without(wanted, free)
    left = extents.without(free, wanted)
    taken = extents.common(lacking, usable)
    agree = extents.size(wanted) - extents.size(lacking)
    either = extents.size(free) + extents.size(lacking)
    kinds = {"metadata": extents.without(lacking, usable), "taken": taken, "left": left}
    ranges = [(end - start, start, kind) for kind, some in kinds.items() for start, end in some]
    return {
        "agree_bytes": agree,
        "agree_share": agree / either if either else 1.0,
        **{f"{kind}_bytes": extents.size(some) for kind, some in kinds.items()},
        "differ": [
            {"start": start, "bytes": length, "why": kind} for length, start, kind in sorted(ranges)[-SHOWN:][::-1]
        ],
    }


def _summary(free: Extents, device_bytes: int) -> dict[str, object]:
    return {
        "device_bytes": device_bytes,
        "free_bytes": extents.size(free),
        "free_extents": len(free),
        "free_percent": extents.shares(free, device_bytes, BITMAP),
    }


def now(target: Target) -> tuple[Head, Extents]:
    """The device and free extents of a target, mounted anew as for each cell. Raises Failure."""
    check(target)
    target.remount()
    return read(target)


def _fitting(target: Target, head: Head, layout: str) -> tuple[Extents, int]:
    """The target's free extents and the size of its device. Raises Failure where the layout does not fit it."""
    head_now, free = read(target)
    if head.block_bytes != head_now.block_bytes:
        raise Failure(
            f"layout {layout} has blocks of {head.block_bytes} bytes, and target {target.name} of "
            f"{head_now.block_bytes}: it cannot be copied block by block"
        )
    if head.device_bytes > head_now.device_bytes:
        raise Failure(
            f"layout {layout} is of {head.device_bytes} bytes, and target {target.name} has {head_now.device_bytes}: "
            "it is larger than the target"
        )
    return free, head_now.device_bytes
