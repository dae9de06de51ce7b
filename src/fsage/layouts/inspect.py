"""What a name on the command line is (device, image, mount, text), and its layout. Nothing is written."""

from __future__ import annotations

import itertools
import os
import stat
import sys
import time
from pathlib import Path

from fsage.base import Failure, Json
from fsage.base.message import NotTaken, open_file, printable
from fsage.layouts import fiemap, filesystems, machine, saved
from fsage.layouts.fragmentation import FileLayouts
from fsage.layouts.freespace import ONCE, Counting, usage
from fsage.layouts.store import OF_DEVICE, SCHEMA, NotThisText, Store, without
from fsage.layouts.stream import UTF_16_MARKS

NO_FILES = "files of a device or an image are not read: give the directory where it is mounted"
METADATA_IMAGES = (b"QFI\xfb", b"XFSM", b"XMD2", b"\x8bf\x95r\xe2%\\\xbd")
"""How what `e2image -Q`, `xfs_metadump` and `btrfs-image` write begins."""
LUSTRE_CLIENT = (
    "a Lustre client does not see the devices; on its servers ask each OST's: `lctl get_param -n osd-ldiskfs.*.mntdev`"
)


def inspect(what: str, files_at_most: int, counting: Counting = ONCE) -> Json:
    """Layout of a device, image, directory, text, `-`: schema, what, seconds, mounted, unread, stores: [Store.summary].

    A directory gives the free space of the file system that it is on, and the files below it, `files_at_most` of
    them. Nothing is synchronised: what the kernel has not placed yet counts as free. `counting`: who is given each
    free extent. `mounted`: what statvfs(2) tells (bytes, free_bytes, available_bytes, inodes, free_inodes) where it
    is mounted, else None. `unread`: why no file of a directory could be read, else None. Raises ValueError.
    """
    began = time.monotonic()
    try:
        store, mount = _store(what, files_at_most, counting)
        mounted = None
        if mount:
            totals = os.statvfs(mount)
            size = totals.f_frsize
            mounted = {
                "bytes": totals.f_blocks * size,
                "free_bytes": totals.f_bfree * size,
                "available_bytes": totals.f_bavail * size,
                "inodes": totals.f_files,
                "free_inodes": totals.f_ffree,
            }
            if totals.f_blocks and "device_bytes" not in store.found:  # nothing closer to the device told it
                whole = {"device_bytes": mounted["bytes"], "block_bytes": size}
                store.found.update(whole, **usage(mounted["bytes"], mounted["free_bytes"]))
                store.source["free"] = "statvfs: totals only"
    except (NotThisText, NotTaken, Failure) as error:
        raise ValueError(f"{'standard input' if what == '-' else what}: {error}") from error
    except OSError as error:
        raise ValueError(f"{error.filename or what}: {error.strerror}{machine.remedy(error)}") from error
    looked_at = any(files["files"] for files in store.found.get("files", {}).values())
    if not {"device_bytes", "free_extents"}.intersection(store.found) and not looked_at:
        reasons = "; ".join(dict.fromkeys(store.absent.values()))
        raise ValueError(f"{what}: nothing is known of how it lies: {reasons}")
    seconds = time.monotonic() - began
    layout = {"schema": SCHEMA, "what": printable(what), "seconds": seconds, "unread": store.unread}
    return {**layout, "mounted": mounted, "stores": [store.summary(0)]}


def _store(what: str, files_at_most: int, counting: Counting) -> tuple[Store, Path | None]:
    """The store, and where it is mounted, if it is."""
    if what == "-":
        return saved.read(sys.stdin.buffer, counting), None
    what = f"./{what}" if what.startswith("-") else what  # or the tools would take it for an option
    mode = os.stat(what).st_mode
    if stat.S_ISDIR(mode):
        return _of_directory(Path(what), files_at_most, counting), Path(what)
    if stat.S_ISBLK(mode):
        return _of_device(what, counting)
    with open_file(what) as stream:
        start = stream.peek(4096)
        if start.startswith(METADATA_IMAGES):
            raise Failure(
                "this is an image of metadata: recipe `aged` restores it (`images:`, docs/background/replica.md)"
            )
        # No text has a NUL but one of Windows, and a file system's image begins with many.
        if saved.is_packed(start) or start.startswith(UTF_16_MARKS) or b"\0" not in start:
            return saved.read(stream, counting), None
    place = os.path.realpath(what)
    image = os.stat(place)
    attached = machine.loops_on(image.st_dev, image.st_ino)
    if attached:
        raise Failure(f"this image is attached to {attached[0]}, which may know it better: give that")
    return _of_unmounted(what, counting), None


def _of_device(device: str, counting: Counting) -> tuple[Store, Path | None]:
    number = os.stat(device).st_rdev
    name = f"{os.major(number)}:{os.minor(number)}"
    for mount in machine.mounts():
        same = mount.device == name or os.path.realpath(mount.source) == os.path.realpath(device)
        system = filesystems.like(mount.type)
        if same and system:
            store = system.of_mount(device, Path(mount.point), counting)
            if "device_bytes" in store.absent:
                raise Failure(store.absent["device_bytes"])
            store.absent["files"] = NO_FILES
            return store, Path(mount.point)
    return _of_unmounted(device, counting), None


def _of_unmounted(device: str, counting: Counting) -> Store:
    """An image or a device that is mounted nowhere; ext4 may be."""
    why = fiemap.why_closed(device)
    if why:
        raise Failure(why)
    filesystem = machine.signature(device, "TYPE") or ""
    system = filesystems.like(filesystem)
    if not system:
        what = filesystem or "nothing that blkid knows"
        raise Failure(f"{what} is on it; {filesystems.titles()} can be read")
    store = system.free_space_unmounted(device, counting)
    store.absent["files"] = NO_FILES
    return store


def _of_directory(directory: Path, files_at_most: int, counting: Counting) -> Store:
    mount = machine.mount_of(directory)
    system = filesystems.like(mount.type)
    if mount.type == "lustre" and ":/" not in mount.source:  # a server's target, below which nothing is to be seen
        return _of_device(mount.source, counting)[0]
    if system:
        store = system.of_mount(mount.source, Path(mount.point), counting)
    elif mount.type == "lustre":
        store = Store(mount.type, {}, {}, without(OF_DEVICE, LUSTRE_CLIENT))
    else:
        why = f"of {mount.type} no free space is read; only of {filesystems.titles()}"
        store = Store(mount.type, {}, {}, without(OF_DEVICE, why))
    _add_files(store, directory, files_at_most)
    return store


def _add_files(store: Store, directory: Path, files_at_most: int) -> None:
    layouts = FileLayouts(os.statvfs(directory).f_frsize)
    unread = machine.Unread()
    paths = machine.regular_files(directory, unread)
    for path in itertools.islice(paths, files_at_most):
        try:
            layouts.add(fiemap.extents(path, synchronise=False))
        except OSError as error:
            unread.add(path, error)
    more = next(paths, None)
    summary = layouts.summary()
    lacking = unread.words()
    if files_at_most and lacking and not summary["files"]:
        store.absent["files"] = f"no file's extents are known: {lacking}{unread.remedy}"
        if unread.folders or unread.remedy:
            store.unread = f"{directory}: {store.absent['files']}"
        return
    store.found["files"] = {"found": summary}
    store.source["files"] = "FIEMAP"
    if lacking:
        store.source["files"] += f"; {lacking}"
    if more:
        store.source["files"] += f"; the first {files_at_most} files only (--files)"
