"""Cold caches on a Lustre client: locks protect its pages, so unused locks of the target's mount are cancelled."""

from __future__ import annotations

import time
from pathlib import Path

from fsage.host.lustre import granted, mounts, params
from fsage.host.system import caches
from fsage.model.answers import Dropped

PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Between attempts: a lock that was in use at first, such as by the client's reading ahead, is unused later."""


def drop(mount: Path, fsname: str, files: list[Path]) -> Dropped:
    """Cancel the unused locks of a mount, then drop the caches; the answer of caches.drop, with `locks` cancelled.

    A user without root or its helper drops the pages of these files alone, and keeps their names and attributes.

    Counting the pages of files takes new locks, which keep names and attributes in memory: they are cancelled last.
    """
    if not caches.may_drop():
        return caches.drop(files)
    began = time.monotonic()
    connections = f"{fsname}-{{}}-{mounts.instance(mount, fsname)}"
    locks, _ = give_back(connections)
    pages, method = caches.drop_pages(files)
    _, left = give_back(connections)
    others = f" ({left} of others' stay)" if left else ""
    return {
        **caches.drop_names(files),
        "seconds": time.monotonic() - began,
        "cached_pages": pages,
        "method": f"lru_size=clear{others}, {method}",
        "locks": locks,
        "locks_left": left,
    }


def give_back(connections: str) -> tuple[int, int]:
    """Cancel the unused locks; how many there were, and how many there are after the last attempt.

    Those are new ones, of others who work on the same mount: nobody waits for them. Whether anything of the target's
    files stayed in memory is counted for itself (fsage.host.system.caches).
    """
    before = left = unused(connections)
    for pause_s in PAUSES_S:
        if not left:
            break
        granted.cancel_locks(connections.partition("-{}")[0], [name.rpartition(".")[0] for name in left])
        left = unused(connections)
        if left:
            time.sleep(pause_s)
    return sum(before.values()), sum(left.values())


def unused(connections: str) -> dict[str, int]:
    """Unused locks of a mount, by connection to an OST (osc) or MDT (mdc); only where there are any."""
    of_mount = (connections.format(kind) for kind in ("OST*-osc", "MDT*-mdc"))
    found = params.get(*(f"ldlm.namespaces.{name}.lock_unused_count" for name in of_mount))
    return {name: int(count) for name, count in found.items() if int(count)}
