"""The mounts of this machine, the holders of a device, and mount(2) and umount(2), for every file system."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
import uuid
from collections.abc import Callable
from pathlib import Path

from fsage.base import Failure, Refusal
from fsage.base.shell import run
from fsage.host.system import kernel
from fsage.layouts.machine import exclusive, mounted_at, mounts, plain, signature

# Whoever made the image, nothing in it becomes a program with rights or a device of this machine's.
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_NOATIME = 1024
MNT_DETACH = 2
SWAPS = Path("/proc/swaps")
# Whoever looks at a mount or a device just now (blkid, a namespace in the making) has this long to end.
PATIENCE_S = 2.0
FS_IOC_GETFSUUID = 0x80111500  # _IOR(0x15, 0, struct fsuuid2 {u8 len; u8 uuid[16]}), Linux 6.9
BLKDISCARD = 0x1277
FITRIM = 0xC0185879  # linux/fs.h


def mount_call(source: str, point: str, kind: str, flags: int, options: str) -> None:
    """mount(2) with exactly these options. mount(8) would add those of fstab and of the kernel."""
    place = os.fsencode(point)
    code = kernel.library.mount(source.encode(), place, kind.encode(), ctypes.c_ulong(flags), options.encode())
    kernel.check(code, point)


def uuid_on(device: str) -> str | None:
    """The UUID in the superblock on a device or image, or None. Raises Failure where it cannot be read."""
    return signature(device, "UUID")


def wipe(device: str) -> None:
    """Remove the signatures of file systems from a device."""
    run(["wipefs", "--all", "--quiet", device])


def discard(device: str) -> None:
    """Give back all blocks below a device that nobody uses; what was there reads as zeros."""
    with kernel.opened(device, os.O_WRONLY | os.O_EXCL) as descriptor:
        size_bytes = os.lseek(descriptor, 0, os.SEEK_END)
        fcntl.ioctl(descriptor, BLKDISCARD, struct.pack("=QQ", 0, size_bytes))


def trim(point: Path, begin: int, end: int) -> None:
    """Have a mounted file system give back the blocks below what is free in a range of its device. Raises Failure."""
    with kernel.opened_folder(point) as descriptor:
        try:
            fcntl.ioctl(descriptor, FITRIM, struct.pack("=QQQ", begin, end - begin, 0))
        except OSError as error:
            raise Failure(f"{point}: blocks cannot be given back below it (FITRIM): {error.strerror}") from error


def uuid_mounted(point: Path | str) -> str | None:
    """The UUID that the kernel has for a mounted file system; None before Linux 6.9."""
    with kernel.opened_folder(point) as descriptor:
        try:
            answer = fcntl.ioctl(descriptor, FS_IOC_GETFSUUID, bytes(17))
        except OSError as error:
            if error.errno in (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL):
                return None
            raise
    if answer[0] == 16:
        return str(uuid.UUID(bytes=answer[1:17]))
    return None


def refuse_occupied(point: Path, device: str) -> None:
    """Raise Refusal if something else is mounted at `point`, or a mount would hide its content."""
    occupant = mounted_at(point)
    if occupant:
        raise Refusal(
            f"{point}: {occupant.source} ({occupant.type}) is mounted there, not {device}; unmount it, or "
            "declare another fsage_target.mount_dir"
        )
    if point.is_dir() and any(point.iterdir()):
        raise Refusal(
            f"{point}: not empty, and a mount would hide what is in it; declare another fsage_target.mount_dir"
        )


def unmount(point: Path) -> None:
    """Unmount what is mounted at `point`. Raises Failure naming the processes that use it."""
    for last in kernel.attempts(PATIENCE_S, 0.02):
        if kernel.library.umount2(os.fsencode(os.path.realpath(point)), 0) == 0:
            return
        code = ctypes.get_errno()
        if code == errno.EINVAL:  # not a mount point
            return
        if code != errno.EBUSY:
            raise Failure(f"unmounting {point}: {os.strerror(code)}")
        if last:
            raise Failure(f"unmounting {point}: {os.strerror(code)}{_users(point)}")


def let_go(point: Path | str) -> None:
    """Detach a mount, and those below it, from this mount namespace; they end when nobody here uses them."""
    kernel.check(kernel.library.umount2(os.fsencode(point), MNT_DETACH), str(point))


def unmount_all(device: str) -> None:
    """Unmount a block device wherever it is mounted here."""
    for mount in reversed(mounts()):
        if mount.source.startswith("/dev/") and os.path.realpath(mount.source) == device:
            unmount(Path(mount.point))


def refuse_if_in_use(device: str) -> None:
    """Raise Refusal if `device` holds the root file system or swap, or if it is mounted or in use."""
    number = os.stat(device).st_rdev
    name = kernel.shown_number(number)
    if os.stat("/").st_dev == number or any(m.point == "/" and m.device == name for m in mounts()):
        raise Refusal(f"{device} holds the root file system of {os.uname().nodename}; it is never touched")
    for line in SWAPS.read_bytes().splitlines()[1:]:
        swap = plain(os.fsdecode(line.split()[0]))
        if os.path.exists(swap) and os.stat(swap).st_rdev == number:
            raise Refusal(f"{device} is swapped to on {os.uname().nodename}; it is never touched")
    for mount in mounts():
        if mount.device == name or os.path.realpath(mount.source) == os.path.realpath(device):
            raise Refusal(f"{device} is mounted at {mount.point}; unmount it first")
    for last in kernel.attempts(PATIENCE_S, 0.02):
        if exclusive(device):
            return
        if last:
            raise Refusal(
                f"{device} is in use although it is not mounted here{_namespaces(name)}; end what holds "
                "it, or unmount it there (nsenter -t PID -m umount ...)"
            )


def _namespaces(device: str) -> str:
    """The processes whose mount namespaces have `device` mounted, described for a message."""
    own_namespace = os.readlink("/proc/self/ns/mnt")

    def has_it(process: Path) -> bool:
        if os.readlink(process / "ns/mnt") == own_namespace:
            return False
        return any(mount.device == device for mount in mounts(str(process / "mountinfo")))

    holders = _processes(has_it)
    if holders:
        return f": another mount namespace holds it, that of process {holders}"
    return ": another mount namespace or the kernel holds it"


def _users(point: Path) -> str:
    """The processes that have something open below `point`, described for a message."""

    def uses_it(process: Path) -> bool:
        links = [os.readlink(process / "cwd"), *map(os.readlink, (process / "fd").iterdir())]
        return any(f"{link}/".startswith(f"{point}/") for link in links)

    holders = _processes(uses_it)
    if holders:
        return f"; held by process {holders}"
    return ""


def _processes(hold: Callable[[Path], bool]) -> str:
    """Number and name of the first three processes that hold something; '' for none. One that ends is left out."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if hold(process):
                found.append(f"{process.name} ({(process / 'comm').read_text(errors='replace').strip()})")
    return ", ".join(found[:3])
