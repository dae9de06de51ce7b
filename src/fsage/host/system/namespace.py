"""The mount namespace in which the file systems of loop targets are mounted, and which only fsage's commands enter.

A program that makes a mount namespace of its own (a container, a service with PrivateTmp) gets a copy of every mount
that it sees. A copy keeps a device busy as long as that program lives. It does not see the mounts of this namespace.

A bind mount of its file keeps the namespace (mount_namespaces(7), namespaces(7)); the kernel copies that mount into no
other namespace. What the machine's owner unmounts is unmounted here too, where mounts are shared, as systemd makes
them. Where they are private, as in a container, copies here would keep the owner's loop devices busy. The copies that
no place of the target lies on are therefore detached when the namespace is made.

The first command of any target makes the namespace. It ends with the last target's mounts, or with the machine.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from fsage.base import Failure, Refusal
from fsage.host.system import files, kernel, mounting
from fsage.host.system.mounting import MS_NODEV, MS_NOEXEC, MS_NOSUID
from fsage.layouts import machine

PLACE = Path("/run/fsage/namespace")  # a tmpfs of its own: what is mounted in a shared mount would be copied
KEPT = PLACE / "mnt"
NOTE = PLACE / "inode"  # of the namespace; it tells a process whether it is inside
LOCK = PLACE.with_suffix(".lock")
OWN = "/proc/self/ns/mnt"
CLONE_NEWNS = 0x20000
CLONE_FS = 0x200
MS_BIND = 4096
MS_REC = 1 << 14
MS_PRIVATE = 1 << 18
MS_SLAVE = 1 << 19


def inside() -> bool:
    """Whether this process is in the namespace."""
    with contextlib.suppress(OSError):
        return bool(files.read_json(NOTE) == os.stat(OWN).st_ino)
    return False


def exists() -> bool:
    """Whether this machine has the namespace now; for a process outside."""
    with contextlib.suppress(OSError):
        return os.stat(KEPT).st_dev == os.stat(OWN).st_dev
    return False


def enter(places: Collection[str] = ()) -> None:
    """Move the calling thread, and what it starts from now on, into the namespace, made if it is not there.

    `places` must be the same directories inside. Needs root. Raises Failure.
    """
    if inside():
        return
    outside = list(map(_file_system, places))
    with _failing("entering"), files.locked(LOCK), kernel.opened(OWN) as before:
        if not exists():
            _make(places)
        number = os.stat(KEPT).st_ino
        if files.read_json(NOTE) != number:
            files.write_json(NOTE, number)
        with kernel.opened(KEPT) as kept:
            _move(kept)
        unseen = [place for place, device in zip(places, outside) if _file_system(place) != device]
        if unseen:
            _move(before)
            raise Failure(
                f"{unseen[0]} lies on a mount that fsage's mount namespace on {os.uname().nodename} does not see. "
                "Mounts here are private (findmnt -o TARGET,PROPAGATION), and this one is newer than the namespace, or "
                "of a loop device. Release this host's loop targets, which ends the namespace, and give the command "
                "again"
            )


def look_in() -> None:
    """Enter the namespace to examine a mounted target (`enter`). Raises Refusal where no target is mounted."""
    if not inside() and not exists():
        raise Refusal(f"no loop target is mounted on {os.uname().nodename}: a command of its study mounts it")
    enter()


@contextlib.contextmanager
def entered(places: Collection[str] = ()) -> Iterator[None]:
    """Be in the namespace while the block runs; it goes in the end if nothing needs it any more. Raises Failure."""
    if inside():
        yield
        return
    with kernel.opened(OWN) as before:
        enter(places)
        try:
            yield
        finally:
            with _failing("leaving"), files.locked(LOCK):
                within = _stores()
                _move(before)
                if exists() and not within - _stores():  # another command may have left it since
                    _remove()


def _file_system(place: str) -> int:
    """The device of the file system on which a place lies, or would be made."""
    return os.stat(next(path for path in (Path(place), *Path(place).parents) if path.exists())).st_dev


def _make(places: Collection[str]) -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    # What is there is left over, or a copy of another mount namespace's, whose note is not to be touched. The table of
    # mounts names hidden ones too (below another /run), so it is not read.
    if os.path.ismount(PLACE):
        mounting.unmount(PLACE)
    mounting.mount_call("fsage", str(PLACE), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=64k")
    mounting.mount_call("none", str(PLACE), "none", MS_PRIVATE, "")
    KEPT.touch()
    # A namespace may only be mounted where its number is higher, and Linux 6.18 counts on each CPU from a start of its
    # own: on the CPU on which ours was made, if on no other, the next one has a higher number.
    allowed = sorted(os.sched_getaffinity(0))
    try:
        for cpu in allowed:
            os.sched_setaffinity(0, {cpu})
            try:
                return _make_here(places)
            except OSError as error:
                if error.errno != errno.EINVAL or cpu == allowed[-1]:
                    raise
    finally:
        os.sched_setaffinity(0, allowed)


def _make_here(places: Collection[str]) -> None:
    with kernel.opened(OWN) as before:
        try:
            unshare(MS_SLAVE)
            _let_go([*places, os.getcwd(), sys.prefix, sys.base_prefix])
            made = os.open(OWN, os.O_RDONLY)
        finally:
            _move(before)
    with kernel.closing(made):
        mounting.mount_call(f"/proc/self/fd/{made}", str(KEPT), "none", MS_BIND, "")


def _let_go(places: Collection[str]) -> None:
    """Detach copies of loop devices' mounts, except those that follow their owner's and those that places lie on."""
    real = list(map(os.path.realpath, places))
    with kernel.opened(OWN) as own, _at_top_of(own) as root:
        kept = [Path(f"{root}/{place}") for place in real]
        for mount in reversed(machine.mounts()):
            lies_on = any(place.is_relative_to(mount.point) for place in kept)
            if mount.source.startswith("/dev/loop") and not mount.propagation and not lies_on:
                mounting.let_go(mount.point)


def _remove() -> None:
    NOTE.unlink(missing_ok=True)  # first: another namespace may get the number
    mounting.unmount(KEPT)
    mounting.unmount(PLACE)  # the directory stays: to remove it would detach what another namespace has there


def _stores() -> set[tuple[str, str]]:
    """The mounts of loop devices and of fsage's disks."""
    return {
        (mount.device, mount.point)
        for mount in machine.mounts()
        if mount.source.startswith(("/dev/loop", "fsage-seekdisk-"))
    }


def unshare(propagation: int) -> None:
    """Give the calling thread a mount namespace of its own; `propagation`: of all its mounts, MS_SLAVE or MS_PRIVATE.

    Raises OSError.
    """
    kernel.check(kernel.library.unshare(CLONE_NEWNS))
    with kernel.opened(OWN) as own, _at_top_of(own):
        mounting.mount_call("none", "/", "none", MS_REC | propagation, "")


def leave_mounts() -> None:
    """Give this process a mount namespace of its own in which nothing is mounted, so that it keeps nobody's busy.

    Raises OSError.
    """
    unshare(MS_PRIVATE)
    mounting.let_go("/")


def rejoin() -> None:
    """Move the calling thread to the top of the mount namespace that it is in. Raises OSError without the rights."""
    with kernel.opened(OWN) as own:
        kernel.check(kernel.library.unshare(CLONE_FS))
        kernel.check(kernel.library.setns(own, CLONE_NEWNS))


def _move(namespace: int) -> None:
    with _at_top_of(namespace):
        pass


@contextlib.contextmanager
def _at_top_of(namespace: int) -> Iterator[str]:
    """Move into a mount namespace: to its top while the block runs, then to what root and working directory are called.

    Yields what the root is called there.

    In a chroot the root is not the top, and perhaps no mount, so that it can have no propagation of its own.
    """
    place = os.getcwd()
    with kernel.opened("/", os.O_PATH) as root:
        # Threads share what setns(2) changes, and it refuses those that do.
        kernel.check(kernel.library.unshare(CLONE_FS))
        kernel.check(kernel.library.setns(namespace, CLONE_NEWNS))
        name = os.readlink(f"/proc/self/fd/{root}")  # as it is called from the top
        try:
            yield name
        finally:
            if name != "/":
                os.chroot(name)
            os.chdir(place)


@contextlib.contextmanager
def _failing(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"{error.strerror} ({error.filename})" if error.filename else error.strerror
        raise Failure(
            f"{doing} fsage's mount namespace ({KEPT}) on {os.uname().nodename}: {what}; it needs root with "
            "CAP_SYS_ADMIN, and in a container the right to mount"
        ) from error
