"""What this machine allows this process, found by trying: loop devices, mounts, dropped caches and more.

User number 0 proves nothing: in a container root has fewer rights, and its /dev, /sys and /proc differ. So fsage tries
each right that it needs once, and leaves nothing behind: a loop device on a file in memory, a mount that can never
succeed. The default target, refusals, `fsage site`, `fsage doctor` and tests use the results.
"""

from __future__ import annotations

import errno
import functools
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from fsage.base import Call, Failure, Refusal, in_words, shell
from fsage.host.device import loops
from fsage.host.system import caches, fanotify, kernel, mounting, namespace, space
from fsage.layouts import fiemap
from fsage.model.answers import Obstacle

LOOP_BYTES = 1 << 20
ROOT = "run it as root"
CONTAINER = "in a container, start that with --privileged"


class Capability(NamedTuple):
    """Something that fsage needs of a machine. `attempt` raises OSError, or Refusal or Failure with a sentence."""

    name: str
    purpose: str
    attempt: Call
    remedy: str


def obstacle(capability: Capability) -> Obstacle | None:
    """Why this process lacks a capability; None when it has it. Tried once a process."""
    return _tried(capability, os.geteuid())


@functools.cache
def _tried(capability: Capability, user: int) -> Obstacle | None:
    try:
        capability.attempt()
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0)
        limited = shell.why_files_limited(LOOP_BYTES)
        if limited:
            return Obstacle(limited, code, shell.UNLIMITED)
        return Obstacle(in_words(error) + (f" ({code})" if code else ""), code, capability.remedy)
    except (Refusal, Failure) as why:
        return Obstacle(str(why), None, capability.remedy)
    return None


def obstacles(capabilities: Sequence[Capability]) -> list[Obstacle]:
    """The obstacles to these capabilities."""
    return [why for why in map(obstacle, capabilities) if why]


def why_no_loops() -> str | None:
    """Why this process cannot have file systems of its own; None when it can."""
    missing = obstacles(LOOP_TARGET)
    if not missing:
        return None
    reasons = "; ".join(why.reason for why in missing)
    return f"file systems of its own cannot be had ({reasons}): {missing[0].remedy}; or declare `kind: directory`"


def need_loops(name: str) -> None:
    """Raise Refusal where this process cannot have a target of kind loop."""
    why = why_no_loops()
    if why:
        raise Refusal(f"target {name} (kind: loop) on {os.uname().nodename}: {why}; nothing was touched")


def _attach_loop_device() -> None:
    """A free loop device, on a file in memory for a moment; the kernel detaches it when this process is killed."""
    with kernel.closing(os.memfd_create("fsage-attempt")) as memory:
        os.ftruncate(memory, LOOP_BYTES)
        _, descriptor = loops.configure(memory, loops.LO_FLAGS_AUTOCLEAR)
        os.close(descriptor)


def _mount_block_device() -> None:
    """Try to mount /dev/null: the kernel checks rights first, and then finds that it is no block device."""
    lines = Path("/proc/filesystems").read_text().splitlines()
    kinds = [line.strip() for line in lines if not line.startswith("nodev")]
    mount_in_vain("/dev/null", kinds[0] if kinds else "ext4")


def mount_in_vain(source: str, kind: str) -> None:
    """Raise OSError where the kernel refuses for lack of rights; any other error means that it would mount.

    It looks at the source before the place, which is a directory that ends with this process.
    """
    try:
        mounting.mount_call(source, f"/proc/{os.getpid()}", kind, 0, "")
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENODEV):
            raise OSError(error.errno, error.strerror, f"mounting {kind}") from None


def _move_between_mount_namespaces() -> None:
    """Into the present one, in a thread of its own.

    The rights are those that it takes to make one, but nothing is copied: a copy would keep others' mounts busy.
    """
    with ThreadPoolExecutor(1) as own:
        try:
            own.submit(namespace.rejoin).result()
        except OSError as error:
            raise OSError(error.errno, error.strerror, "setns(CLONE_NEWNS)") from None


def _drop_caches() -> None:
    """Open the file for writing: the kernel checks rights then, and drops nothing."""
    if not caches.may_drop():
        os.close(os.open(caches.DROP, os.O_WRONLY))


def _watch_file_system() -> None:
    """Watch the directory for temporary files for a moment."""
    watch = fanotify.FileWatch({"": Path(tempfile.gettempdir())}, "")
    try:
        watch.arm()
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL):
            raise OSError(error.errno, error.strerror, "fanotify") from None
    finally:
        watch.close()


def _write_directly() -> None:
    """Into the place for temporary files that is on a disk, if one is."""
    why = [space.why_no_direct_io(Path(place)) for place in TEMPORARY if os.access(place, os.W_OK)]
    if all(why):
        raise Failure("; ".join(filter(None, why)) or f"none of {', '.join(TEMPORARY)} can be written")


def _map_extents() -> None:
    place = next((place for place in TEMPORARY if os.access(place, os.W_OK)), "/")
    with tempfile.NamedTemporaryFile(prefix="fsage-attempt-", dir=place) as file:
        file.write(b"fsage")
        file.flush()
        try:
            fiemap.extents(file.name)
        except OSError as error:
            raise OSError(error.errno, error.strerror, f"FS_IOC_FIEMAP in {place}") from None


TEMPORARY = ("/var/tmp", tempfile.gettempdir(), ".")
"""Directories for trial files; the first is on a disk most often."""
LOOP_DEVICE = Capability(
    "loop device",
    "file systems that fsage makes, in image files",
    _attach_loop_device,
    f"{ROOT}, with {loops.CONTROL} and /dev/loop*; {CONTAINER}",
)
MOUNT = Capability("mount", "the same", _mount_block_device, f"{ROOT} with CAP_SYS_ADMIN; {CONTAINER}")
MOUNT_NAMESPACE = Capability(
    "mount namespace",
    "mounts that no other program holds on to",
    _move_between_mount_namespaces,
    f"{ROOT} with CAP_SYS_ADMIN; {CONTAINER}",
)
DROP_CACHES = Capability(
    "drop caches",
    "cold names and inodes before a read (data is cold without it)",
    _drop_caches,
    f"{ROOT}, or give the user the helper (`fsage site --sudoers`); {CONTAINER}",
)
FANOTIFY = Capability(
    "fanotify",
    "a check before each cell that does not look at every file",
    _watch_file_system,
    f"{ROOT} with CAP_SYS_ADMIN, on Linux 6.0 or later; {CONTAINER}",
)
DIRECT_IO = Capability(
    "O_DIRECT",
    "reads and writes past the page cache",
    _write_directly,
    "name a directory on a disk: fsage_target.directory or image_dir",
)
EXTENTS = Capability(
    "FIEMAP",
    "where a file's extents lie",
    _map_extents,
    "name a directory on a file system that has it (ext4, XFS, btrfs)",
)
LOOP_TARGET = (LOOP_DEVICE, MOUNT, MOUNT_NAMESPACE)
"""The capabilities that a target with file systems of its own needs."""
CAPABILITIES = (*LOOP_TARGET, DROP_CACHES, FANOTIFY, DIRECT_IO, EXTENTS)
"""All of fsage itself. What one device model needs besides is its own (fsage.host.device.models)."""
