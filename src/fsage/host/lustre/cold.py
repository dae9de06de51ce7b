"""Cold caches on a Lustre client: locks protect its pages, so unused locks are cancelled and counted."""

from __future__ import annotations

import time
from pathlib import Path

from fsage.host.lustre import granted, params
from fsage.host.system import caches
from fsage.model.answers import Dropped
from fsage.model.errors import Failure

PATIENCE_S = 30.0
LOOK_EVERY_S = 0.05


def drop(fsname: str, files: list[Path]) -> Dropped:
    """Cancel every unused lock, then drop the caches; the answer of caches.drop, with `locks`, the number cancelled.

    A user without root or its helper drops the pages of these files alone, and keeps their names and attributes.

    Counting the pages of files takes new locks, which keep names and attributes in memory: they are cancelled last.
    """
    if not caches.may_drop():
        return caches.drop(files)
    began = time.monotonic()
    locks = give_back(fsname)
    pages, method = caches.drop_pages(files)
    give_back(fsname)
    return {
        **caches.drop_names(files),
        "seconds": time.monotonic() - began,
        "cached_pages": pages,
        "method": f"lru_size=clear, {method}",
        "locks": locks,
    }


def give_back(fsname: str) -> int:
    """Cancel the unused locks; how many there were.

    Raises Failure that names connections whose locks stay: what these protect may still be in memory.
    """
    began = time.monotonic()
    left = before = unused(fsname)
    while left:
        if time.monotonic() - began > PATIENCE_S:
            raise Failure(f"unused locks stayed {PATIENCE_S:.0f} s after lru_size=clear: {params.names(list(left))}")
        # Repeated: a lock that was in use at first, such as by the client's reading ahead, is unused later.
        granted.cancel_locks([name.rpartition(".")[0] for name in left])
        if left := unused(fsname):
            time.sleep(LOOK_EVERY_S)
    return sum(before.values())


def unused(fsname: str) -> dict[str, int]:
    """Unused locks that this client keeps, by connection to an OST (osc) or MDT (mdc); only where there are any."""
    patterns = (f"ldlm.namespaces.{fsname}-{kind}*.lock_unused_count" for kind in ("OST*-osc-", "MDT*-mdc-"))
    return {name: int(count) for name, count in params.get(*patterns).items() if int(count)}
