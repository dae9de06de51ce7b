"""What a name on the command line is (device, image, mount, text), and its layout. Nothing is written or claimed."""

from __future__ import annotations

import itertools
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

from fsage.agent import filesystems
from fsage.agent.device import loops
from fsage.agent.errors import Failure
from fsage.agent.evidence import ext4, fiemap, layout, xfs
from fsage.agent.evidence.files import FileLayouts
from fsage.agent.evidence.store import OF_DEVICE, NotThisText, Store, without
from fsage.agent.shell import run
from fsage.agent.walk import regular_files
from fsage.evidence import texts
from fsage.text.printable import printable
from fsage.text.untrusted import NotTaken, open_file

NO_FILES = "of a device or an image no files are asked: give the directory where it is mounted"
EXT = ("ext2", "ext3", "ext4")
LUSTRE_CLIENT = (
    "a Lustre client does not see the devices; on its servers ask each OST's: `lctl get_param -n osd-ldiskfs.*.mntdev`"
)


def inspect(what: str, files_at_most: int) -> dict[str, Any]:
    """{"schema", "what", "seconds", "stores": [Store.summary]} of a device, an image, a directory, a text or `-`.

    Of a directory: the free space of the file system that it is on, and the files below it, `files_at_most` of them.
    Nothing is synchronised: what the kernel has not placed yet counts as free. Raises ValueError, one sentence.
    """
    began = time.monotonic()
    try:
        # A program that is given the name must not take it for an option.
        store = _store(f"./{what}" if what.startswith("-") and what != "-" else what, files_at_most)
    except (NotThisText, NotTaken, Failure) as error:
        raise ValueError(f"{'standard input' if what == '-' else what}: {error}") from error
    except OSError as error:
        raise ValueError(f"{error.filename or what}: {error.strerror}") from error
    seconds = time.monotonic() - began
    return {"schema": layout.SCHEMA, "what": printable(what), "seconds": seconds, "stores": [store.summary(0)]}


def _store(what: str, files_at_most: int) -> Store:
    if what == "-":
        return texts.read(sys.stdin.buffer)
    what = f"./{what}" if what.startswith("-") else what  # or the tools would take it for an option
    mode = os.stat(what).st_mode
    if stat.S_ISDIR(mode):
        return _of_directory(Path(what), files_at_most)
    if stat.S_ISBLK(mode):
        return _of_device(what)
    with open_file(what) as stream:
        if b"\0" not in stream.peek(4096):  # no text has one, every file system's image begins with many
            return texts.read(stream)
    attached = loops.devices_of(loops.identity(os.path.realpath(what)) or {})
    if attached:
        raise Failure(f"this image is attached to {attached[0]}, which may know it better: give that")
    return _of_unmounted(what)


def _of_device(device: str) -> Store:
    number = os.stat(device).st_rdev
    name = f"{os.major(number)}:{os.minor(number)}"
    for mount in filesystems.mounts():
        same = mount.device == name or os.path.realpath(mount.source) == os.path.realpath(device)
        if same and mount.type in (*EXT, "xfs", "btrfs"):
            store = layout.of_mount(mount.type, device, Path(mount.point))
            if "device_bytes" in store.absent:
                raise Failure(store.absent["device_bytes"])
            store.absent["files"] = NO_FILES
            return store
    return _of_unmounted(device)


def _of_unmounted(device: str) -> Store:
    """An image or a device: ext4, mounted or not, or XFS that is not mounted."""
    filesystem = run(["blkid", "-p", "-o", "value", "-s", "TYPE", device], ok=(0, 2)).stdout.strip()
    if filesystem in EXT:
        store = ext4.of_device(device)
    elif filesystem == "xfs":
        if stat.S_ISBLK(os.stat(device).st_mode) and not filesystems.exclusive(device):
            raise Failure("this XFS is mounted in another mount namespace: give its mount, there (nsenter -t PID -m)")
        store = xfs.of_device(device)
    elif filesystem == "btrfs":
        raise Failure("btrfs can be read through its mount only: mount it (-o ro) and give that directory")
    else:
        raise Failure(f"{filesystem or 'nothing that blkid knows'} is on it; ext4 (ldiskfs), XFS and btrfs can be read")
    store.absent["files"] = NO_FILES
    return store


def _of_directory(directory: Path, files_at_most: int) -> Store:
    mount = filesystems.mount_of(directory)
    if mount.type != "lustre":
        store = layout.of_mount(mount.type, mount.source, Path(mount.point))
    elif ":/" in mount.source:
        store = Store(mount.type, {}, {}, without(OF_DEVICE, LUSTRE_CLIENT))
    else:  # a server's target, below whose mount point nothing is to be seen
        return _of_device(mount.source)
    _add_files(store, directory, files_at_most)
    return store


def _add_files(store: Store, directory: Path, files_at_most: int) -> None:
    layouts, unmapped, last = FileLayouts(os.statvfs(directory).f_frsize), 0, ""
    found = regular_files(directory)
    for path in itertools.islice(found, files_at_most):
        try:
            layouts.add(fiemap.extents(path, synchronise=False))
        except OSError as error:
            unmapped, last = unmapped + 1, f"{path}: {error.strerror}"
    summary = layouts.summary()
    if unmapped and not summary["files"]:
        store.absent["files"] = f"FIEMAP gives no file's extents ({last})"
        return
    store.found["files"] = {"found": summary}
    store.source["files"] = "FIEMAP"
    if unmapped:
        store.source["files"] += f"; {unmapped} files could not be mapped, the last {last}"
    if next(found, None):
        store.source["files"] += f"; the first {files_at_most} files only (--files)"
