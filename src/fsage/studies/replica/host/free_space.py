"""The free space of the one store of a target on which a layout is laid out."""

from __future__ import annotations

from fsage.host.system import caches
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.evidence.extents import Extents, Head
from fsage.model.evidence.freespace import Counting


def check(target: Target) -> None:
    """Raise Failure where free space cannot be laid out on a target."""
    if why := target.layout_unavailable_because:
        raise Failure(why)


def read(target: Target) -> tuple[Head, Extents]:
    """The device and its free extents, after a flush. Raises Failure."""
    check(target)
    flush(target)
    free: Extents = []
    store = target.laid_space(Counting(keep=lambda *ends: free.extend(zip(*ends))))
    if why := store.absent.get("free_extents"):
        raise Failure(f"target {target.name}: its free extents cannot be read: {why}")
    sizes = store.found["device_bytes"], store.found["block_bytes"]
    return Head(*sizes, 0, store.filesystem, f"target {target.name} itself"), free


def flush(target: Target) -> None:
    """Flush all writes and deletions to the device. Raises OSError, Failure."""
    for mount in target.mounts:
        caches.flush(mount)
    target.settle()
