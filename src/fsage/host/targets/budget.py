"""How much more a target's files may take, and how fast: the rest of its claim, and what is left to others.

On a shared file system others leave some space. Quotas are those of a user and his group on a local file system, by
quotactl_fd(2): a user may ask for his own. A project's quota shows in statvfs(3) of its directory, on ext4 and XFS.
Where the kernel does not answer (NFS, quotas that are off, before Linux 5.14), nothing is known, and only a write can
tell.

The limits of a site on this host (fsage.model.limits) are root's file, the bytes of the day, and fsage's own pace.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.base import KIB, MIB, Refusal
from fsage.host.system import commands, files, kernel, places, space
from fsage.layouts.servers import Ost
from fsage.model import declaration, limits
from fsage.model.structure import SLACK_BYTES
from fsage.model.target import Limits as SiteLimits


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
        # By the file system's own count: it knows what it needs for itself.
        return space.usable_bytes(path) - SLACK_BYTES

    def freed(self) -> None:
        """Wait until the blocks that a truncated file lost are free. Raises Failure."""


class Shared(Limits):
    """The limits of a directory: as many bytes as its budget stay free for others."""

    slack_bytes = SLACK_BYTES

    def __init__(self, place: Path, capacity_bytes: int) -> None:
        self.place = place
        self.capacity_bytes = capacity_bytes

    def left(self) -> int:
        return space.usable_bytes(self.place) - self.capacity_bytes

    def most(self, path: Path, left_bytes: int) -> int:
        return min(left_bytes, self.left())


class Free(NamedTuple):
    """The free space of a store.

    `counted`: counts that repeat exactly while nobody writes, as text; None where none do. `osts`: on Lustre the used
    bytes of each OST.
    """

    bytes: int
    counted: str | None = None
    osts: dict[str, int] | None = None


OWN_BYTES = 1 << 20  # the logs and directories of an OST grow by less while it serves (a few KiB were seen)
Wrong = Callable[[Sequence[Ost]], list[str]]
"""Gives a sentence for each OST that does not hold what it should; none when all do."""


def nothing(now: Sequence[Ost]) -> list[str]:
    """Find nothing wrong: for callers that do not know what the OSTs should hold."""
    return []


def used(osts: Sequence[Ost]) -> dict[str, int]:
    """Used bytes by OST."""
    return {ost.name: ost.used_bytes for ost in osts}


def moved(then: Mapping[str, int], now: Mapping[str, int], tolerance_bytes: int) -> list[str]:
    """A sentence for each OST whose used bytes changed since `then`, by more than others may (`tolerance_bytes`)."""
    return [f"{name} is gone" for name in sorted(set(then) - set(now))] + [
        f"{name} holds {now[name] / MIB:.1f} MiB, where {bytes_then / MIB:.1f} MiB were left"
        for name, bytes_then in sorted(then.items())
        if name in now and abs(now[name] - bytes_then) > OWN_BYTES + tolerance_bytes
    ]


def as_left(then: Mapping[str, int], tolerance_bytes: int) -> Wrong:
    """Finds OSTs whose used bytes changed since `then` (moved)."""
    return lambda now: moved(then, used(now), tolerance_bytes)


def in_all(then: Mapping[str, int], more_bytes: int, tolerance_bytes: int) -> Wrong:
    """Finds that these OSTs together do not hold as much as `then` and `more_bytes`, within others' tolerance each."""
    total_bytes = sum(then.values()) + more_bytes

    def wrong(now: Sequence[Ost]) -> list[str]:
        used_bytes = sum(ost.used_bytes for ost in now if ost.name in then)
        if abs(used_bytes - total_bytes) <= len(then) * (OWN_BYTES + tolerance_bytes):
            return []
        return [f"the OSTs hold {used_bytes / MIB:.1f} MiB, and {total_bytes / MIB:.1f} MiB are accounted for"]

    return wrong


SYS_QUOTACTL_FD = 443  # the same number on every architecture
Q_GETQUOTA = 0x800007
KIND_BITS = 8
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
    with kernel.opened_folder(place) as descriptor:
        for (whose, kind), number in zip(KINDS.items(), owner_of(place)):
            quota = _Quota()
            command = Q_GETQUOTA << KIND_BITS | kind
            if kernel.library.syscall(SYS_QUOTACTL_FD, descriptor, command, number, ctypes.byref(quota)):
                continue
            limit = (quota.hard or quota.soft) * KIB
            most_inodes = quota.hard_inodes or quota.soft_inodes
            rest = max(0, limit - quota.used) if limit else None
            rest_inodes = max(0, most_inodes - quota.inodes) if most_inodes else None
            if limit or most_inodes:
                lefts.append(Left(f"{whose} {number}", rest, rest_inodes))
    return lefts


def least(name: str, budget: dict[str, int], lefts: Sequence[Left]) -> int:
    """The least of what may be used, quotas added to `budget` (what limits the target -> bytes). Raises Refusal."""
    budget |= {f"quota of {quota.whose}": quota.bytes for quota in lefts if quota.bytes is not None}
    what, most = min(budget.items(), key=lambda item: item[1])
    if most <= 0:
        raise Refusal(f"target {name} has no budget: {what} leaves nothing; nothing was touched")
    return most


WRITTEN = "written.json"
"""The note of the bytes that were written today, by all targets of this user: where it lies no inventory says."""


def of_host() -> SiteLimits:
    """What root allows on this host; no limit where there is no file. Raises Refusal for one that is not root's."""
    try:
        descriptor = places.file(limits.FILE, os.O_RDONLY)
    except FileNotFoundError:
        return limits.of_site({})
    except OSError as error:
        raise Refusal(
            f"{limits.FILE}: {error.strerror}: what root allows is not known, so nothing was touched. All must be able "
            f"to read it (chmod 644)"
        ) from error
    with open(descriptor, encoding="utf-8") as text:
        owner = os.fstat(descriptor).st_uid
        if owner:
            raise Refusal(
                f"{limits.FILE} belongs to {places.who(owner)}, and the limits of a site are root's: nothing was "
                f"touched. `chown root {limits.FILE}`, or remove it"
            )
        try:
            return limits.of_site(json.load(text))
        except (ValueError, Refusal) as why:
            raise Refusal(f"{limits.FILE}: {why}; nothing was touched") from None


def effective(declared: SiteLimits) -> SiteLimits:
    """What is declared and what root allows, whichever is stricter. Raises Refusal."""
    return limits.stricter(declared, of_host())


def refuse_now(allowed: SiteLimits, what: str, needs_s: float, wanted_bytes: int, note: bool = True) -> None:
    """Raise Refusal where `what` is not begun now, by the hours and the bytes a day.

    With `note` its bytes count from now on.
    """
    why = why_not_now(allowed, what, needs_s, wanted_bytes, note)
    if why:
        raise Refusal(f"{why}. Nothing was touched")


def why_not_now(allowed: SiteLimits, what: str, needs_s: float, wanted_bytes: int, note: bool = True) -> str | None:
    """Why `what` is not begun now, by the hours and the bytes a day; None: it is. With `note` its bytes count."""
    why = limits.why_not_begun(allowed, what, needs_s, time.time())
    if why:
        return why
    if allowed["gib_a_day"] is None:
        return None
    path = declaration.usual_home() / WRITTEN
    today = time.strftime("%Y-%m-%d")
    with files.locked(path.with_suffix(".lock")) if note else contextlib.nullcontext():
        written = (files.read_json(path) or {}).get(today, 0) + wanted_bytes
        why = limits.why_too_much(allowed, what, written)
        if why:
            return why
        if note:
            files.write_json(path, {today: written})
    return None


def forget() -> list[str]:
    """Remove the note of the bytes of a day that is over; a sentence on one that stays."""
    path = declaration.usual_home() / WRITTEN
    with contextlib.suppress(PermissionError):  # of a home that this user may not pass: then there is none
        if time.strftime("%Y-%m-%d") in (files.read_json(path) or {}):
            return [f"{path} stays until tomorrow: limits.gib_a_day counts what was written today"]
        files.remove(path)
        files.remove(path.with_suffix(".lock"))
    return []


class Pace:
    """Keeps what fsage itself writes, makes and deletes below a share of the site's rates, by sleeping.

    `pause` is called before each of these operations, by any thread: it may wait too, or end the work by a Failure.
    """

    def __init__(self, allowed: SiteLimits, share: int = 1) -> None:
        self.bytes_s = (allowed["bandwidth_mib_s"] or math.inf) * MIB / share
        self.operations_s = (allowed["operations_s"] or math.inf) / share
        self.lock = threading.Lock()
        self.free_at_s = 0.0
        self.pause = commands.check_interrupted

    def spend(self, size: int = 0) -> None:
        """Note an operation that moved so many bytes, and wait until the next may begin."""
        self.pause()
        if math.isinf(self.bytes_s) and math.isinf(self.operations_s):
            return
        with self.lock:
            now_s = time.monotonic()
            self.free_at_s = max(self.free_at_s, now_s) + max(size / self.bytes_s, 1 / self.operations_s)
            wait_s = self.free_at_s - now_s
        time.sleep(wait_s)


UNLIMITED = Pace(limits.of_site({}))
