"""Cold caches on a Lustre client: its pages live under locks, so the locks are given back and counted."""

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
    """Give back every lock that nobody uses, then drop the caches; caches.drop's answer, with `locks` cancelled.

    To count the files' pages takes locks again, under which names and attributes live: these are given back last.
    """
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
    """Cancel the locks that nobody uses; how many there were.

    `Failure` names the connections whose locks stay: what they protect may still be in memory.
    """
    began = time.monotonic()
    left = before = unused(fsname)
    while left:
        if time.monotonic() - began > PATIENCE_S:
            raise Failure(f"unused locks stayed {PATIENCE_S:.0f} s after lru_size=clear: {params.names(list(left))}")
        # Again each time: what was in use at first, as by the client's own reading ahead, is unused later.
        granted.cancel_locks([name.rpartition(".")[0] for name in left])
        if left := unused(fsname):
            time.sleep(LOOK_EVERY_S)
    return sum(before.values())


def unused(fsname: str) -> dict[str, int]:
    """Locks that this client keeps for later, by connection to an OST (osc) or MDT (mdc) that has any."""
    asked = (f"ldlm.namespaces.{fsname}-{kind}*.lock_unused_count" for kind in ("OST*-osc-", "MDT*-mdc-"))
    return {name: int(count) for name, count in params.get(*asked).items() if int(count)}
