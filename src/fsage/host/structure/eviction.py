"""Cache-eviction files: large files that are not measured, read between two phases so that they fill the caches.

They are part of a state. Together they are as large as a share of the capacity, or as a client's memory. On Lustre each
is striped over all OSTs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fsage.host.structure import files
from fsage.host.structure.quota import Quota
from fsage.host.system import caches
from fsage.host.system.space import memory_bytes
from fsage.host.targets.target import Target
from fsage.model import striping
from fsage.model.declaration import MIB
from fsage.model.errors import Failure
from fsage.model.striping import EVICTION_FILES
from fsage.model.structure import path_of

MEMORY = "memory"
GENERATION = 1


def paths_of(mounts: list[Path]) -> list[Path]:
    """The cache-eviction files of a target."""
    return [path for index in range(EVICTION_FILES) if (path := path_of(mounts, GENERATION, index)).exists()]


def make(target: Target, size: float | str, check_lease: Callable[[], None]) -> int:
    """Write the cache-eviction files; how many bytes they have together.

    `size`: percent of the capacity, or `memory`: as much as this host has. Raises Failure where they do not fit.
    """
    if size == MEMORY:
        whole = memory_bytes()
    else:
        whole = int(target.capacity_bytes * float(size) / 100)
    each = max(1, whole // EVICTION_FILES // MIB) * MIB
    quota = Quota(target)
    quota.must_hold(EVICTION_FILES * each, "the cache-eviction file (eviction_file can be less)")
    files.make_room(target.mounts, GENERATION)
    target.osts.spread(path_of(target.mounts, GENERATION, 0).parent)
    for index in range(EVICTION_FILES):
        check_lease()
        path = path_of(target.mounts, GENERATION, index)
        try:
            quota.write(path, each, striping.ALL)
        except OSError as error:
            raise Failure(
                f"writing {path}, {each} bytes of the cache-eviction file ({EVICTION_FILES * each} bytes in "
                f"{EVICTION_FILES} parts): {error.strerror}; eviction_file can be less"
            ) from error
    return EVICTION_FILES * each


def read(target: Target) -> None:
    """Read the cache-eviction files. Raises Failure if there are none.

    No measured file is touched, so that nothing of these comes into memory.
    """
    paths = paths_of(target.mounts)
    if not paths:
        raise Failure(f"the state has no cache-eviction file below {target.mounts[0]}/filler to be read")
    caches.bring_in(paths)
