"""This host's memory, and what a process may still take of it, as proc_meminfo(5) and its control groups allow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fsage.host.system import mounting

LIMITS = {
    "cgroup2": ("memory.max", "memory.current", ("inactive_file", "active_file")),
    "cgroup": ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
}
"""Files of a group: its limit, what is charged to it; the pages among that which the kernel takes back."""


def memory_bytes() -> int:
    """This host's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_bytes() -> int:
    """Memory that this process may still take without another one losing any, on this host and in its groups."""
    with open("/proc/meminfo", encoding="ascii") as table:
        of_host = next(int(line.split()[1]) << 10 for line in table if line.startswith("MemAvailable:"))
    return min([of_host, *_left_in_groups()])


def _left_in_groups() -> Iterator[int]:
    """Bytes that are left to each group of this process that has a limit (cgroup-v2.rst, cgroup-v1/memory.rst)."""
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    own = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    for mount in mounting.mounts():
        controllers = {"cgroup2": "", "cgroup": "memory"}.get(mount.type)
        if controllers is None or controllers not in own or controllers not in mount.super_options:
            continue
        limit, charged, given_back = LIMITS[mount.type]
        place = Path(own[controllers])
        for group in (Path(mount.point + str(path)) for path in (place, *place.parents)):
            try:
                most, now = (group / limit).read_text().strip(), int((group / charged).read_text())
                counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            except OSError:  # the root of the groups has none
                continue
            if most != "max":
                yield max(0, int(most) - now + sum(int(counts.get(name, 0)) for name in given_back))
