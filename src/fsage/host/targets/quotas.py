"""What the quotas of a user and his group leave on a local file system, by quotactl_fd(2): a user may ask for his own.

A project's quota shows in statvfs(3) of its directory, on ext4 and XFS. Where the kernel does not answer (NFS, quotas
that are off, before Linux 5.14), nothing is known, and only a write can tell.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.host.system import libc
from fsage.model.errors import Refusal

SYS_QUOTACTL_FD = 443  # the same number on every architecture
Q_GETQUOTA, KIND_BITS, KIB = 0x800007, 8, 1024
KINDS = {"user": 0, "group": 1}  # linux/quota.h


class Left(NamedTuple):
    """What a quota leaves: whose it is, in words, and bytes and inodes; None: no limit."""

    whose: str
    bytes: int | None
    inodes: int | None


class _Quota(ctypes.Structure):
    """struct if_dqblk: limits in KiB, space in bytes."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in ("hard", "soft", "used", "hard_inodes", "soft_inodes", "inodes", "time", "inode_time")
    ] + [("valid", ctypes.c_uint32)]


def owner_of(place: Path) -> tuple[int, int]:
    """User and group of files that this process makes in `place`."""
    status = os.stat(place)
    return os.geteuid(), status.st_gid if status.st_mode & stat.S_ISGID else os.getegid()


def left(place: Path) -> list[Left]:
    """What the quotas of user and group leave for files made in `place`: those that have a limit."""
    lefts, descriptor = [], os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for (whose, kind), number in zip(KINDS.items(), owner_of(place)):
            quota, command = _Quota(), Q_GETQUOTA << KIND_BITS | kind
            if libc.library.syscall(SYS_QUOTACTL_FD, descriptor, command, number, ctypes.byref(quota)):
                continue
            limit, most_inodes = (quota.hard or quota.soft) * KIB, quota.hard_inodes or quota.soft_inodes
            rest = max(0, limit - quota.used) if limit else None
            rest_inodes = max(0, most_inodes - quota.inodes) if most_inodes else None
            if limit or most_inodes:
                lefts.append(Left(f"{whose} {number}", rest, rest_inodes))
    finally:
        os.close(descriptor)
    return lefts


def least(name: str, budget: dict[str, int], lefts: Sequence[Left]) -> int:
    """The least of what may be used, quotas added to `budget` (what limits the target -> bytes). Raises Refusal."""
    budget |= {f"quota of {quota.whose}": quota.bytes for quota in lefts if quota.bytes is not None}
    what, most = min(budget.items(), key=lambda item: item[1])
    if most <= 0:
        raise Refusal(f"target {name} has no budget: {what} leaves nothing; nothing was touched")
    return most
