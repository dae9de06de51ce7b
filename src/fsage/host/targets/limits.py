"""How much more a target's files may take: the rest of its claim, and on a shared file system what others leave.

Quotas are those of a user and his group on a local file system, by quotactl_fd(2): a user may ask for his own. A
project's quota shows in statvfs(3) of its directory, on ext4 and XFS. Where the kernel does not answer (NFS, quotas
that are off, before Linux 5.14), nothing is known, and only a write can tell.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.host.system import libc
from fsage.model.errors import Refusal
from fsage.model.evidence.lfs_df import Ost
from fsage.model.structure import SLACK_BYTES


class Limits:
    """The limits of a target with file systems of its own, which are as large as its claim."""

    slack_bytes = 0
    """Bytes of the capacity that stay free."""

    def take(self, size: int, path: Path, spread: int) -> None:
        """Note that a file is given so many bytes more, in `spread` stripes (0: as declared). Raises Failure."""

    def allocated(self, path: Path) -> None:
        """Note that the file has what was taken for it."""

    def left(self) -> int | None:
        """Bytes that the target may still take of the file system below; None: all of it. Raises Failure."""
        return None

    def most(self, path: Path, left_bytes: int) -> int:
        """Bytes that a file can be given at once, where `left_bytes` of the capacity are left. Raises Failure."""
        return free_bytes(path) - SLACK_BYTES  # by the file system's own count: it knows what it needs for itself

    def freed(self) -> None:
        """Wait until the blocks that a truncated file lost are free. Raises Failure."""


class Shared(Limits):
    """The limits of a directory: as many bytes as its budget stay free for others."""

    slack_bytes = SLACK_BYTES

    def __init__(self, place: Path, capacity_bytes: int) -> None:
        self.place = place
        self.capacity_bytes = capacity_bytes

    def left(self) -> int:
        return free_bytes(self.place) - self.capacity_bytes

    def most(self, path: Path, left_bytes: int) -> int:
        return min(left_bytes, self.left())


def free_bytes(place: Path) -> int:
    """Bytes that a user may still write on the file system that holds `place`."""
    stat = os.statvfs(place)
    return stat.f_bavail * stat.f_frsize


class Free(NamedTuple):
    """The free space of a store.

    `counted`: counts that repeat exactly while nobody writes, as text; None where none do. `osts`: on Lustre the used
    bytes of each OST.
    """

    bytes: int
    counted: str | None = None
    osts: dict[str, int] | None = None


Wrong = Callable[[Sequence[Ost]], list[str]]
"""Gives a sentence for each OST that does not hold what it should; none when all do."""


def nothing(now: Sequence[Ost]) -> list[str]:
    """Find nothing wrong: for callers that do not know what the OSTs should hold."""
    return []


SYS_QUOTACTL_FD = 443  # the same number on every architecture
Q_GETQUOTA = 0x800007
KIND_BITS = 8
KIB = 1024
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


def quotas_left(place: Path) -> list[Left]:
    """What the quotas of user and group leave for files made in `place`: those that have a limit."""
    lefts = []
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for (whose, kind), number in zip(KINDS.items(), owner_of(place)):
            quota = _Quota()
            command = Q_GETQUOTA << KIND_BITS | kind
            if libc.library.syscall(SYS_QUOTACTL_FD, descriptor, command, number, ctypes.byref(quota)):
                continue
            limit = (quota.hard or quota.soft) * KIB
            most_inodes = quota.hard_inodes or quota.soft_inodes
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
