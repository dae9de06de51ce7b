"""What is free where a layout is laid out: on the one store of a target that it can be laid on."""

from __future__ import annotations

from fsage.host.system import caches
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.evidence.counting import Counting
from fsage.model.evidence.extents import Extents, Head


def check(target: Target) -> None:
    """Raise Failure where free space cannot be laid out on a target."""
    if why := target.layout_unavailable_because:
        raise Failure(why)


def read(target: Target) -> tuple[Head, Extents]:
    """What is free there, once all that was written and deleted has reached the device. Raises Failure."""
    check(target)
    flush(target)
    free: Extents = []
    store = target.laid_space(Counting(keep=lambda *ends: free.extend(zip(*ends))))
    if why := store.absent.get("free_extents"):
        raise Failure(f"target {target.name}: where it is free is not known: {why}")
    sizes = store.found["device_bytes"], store.found["block_bytes"]
    return Head(*sizes, 0, store.filesystem, f"target {target.name} itself"), free


def flush(target: Target) -> None:
    """Have what was written and deleted reach the device. Raises OSError, Failure."""
    for mount in target.mounts:
        caches.flush(mount)
    target.settle()
