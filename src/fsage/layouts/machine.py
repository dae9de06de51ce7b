"""What of this machine layouts are read through: its mounts, its loop devices, and the files below a folder."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from fsage.base import Failure, Json
from fsage.base.sizes import counted

LOOP_GET_STATUS64 = 0x4C05


class Mount(NamedTuple):
    """One line of /proc/self/mountinfo."""

    device: str  # major:minor
    root: str
    point: str
    type: str
    source: str
    mount_options: str
    super_options: str
    propagation: str = ""  # of mounts and unmounts to and from other mount namespaces; empty: it has none

    @property
    def options(self) -> str:
        """All options, those of the mount and those of the file system."""
        return f"{self.mount_options},{self.super_options}"


def mounts(mountinfo: str = "/proc/self/mountinfo") -> list[Mount]:
    """The mounts of this mount namespace, or of the one whose mountinfo is given, oldest first."""
    mounts_now = []
    for line in Path(mountinfo).read_text(encoding="utf-8", errors="surrogateescape").split("\n")[:-1]:
        left, _, right = line.partition(" - ")
        _, _, device, root, point, options, *propagation = left.split(" ")
        kind, source, super_options = right.split(" ")[:3]
        place = (device, plain(root), plain(point), kind, plain(source))
        mounts_now.append(Mount(*place, options, super_options, " ".join(propagation)))
    return mounts_now


def mounted_at(point: Path | str) -> Mount | None:
    """The uppermost mount exactly at `point`, or None."""
    place = os.path.realpath(point)
    return next((mount for mount in reversed(mounts()) if mount.point == place), None)


def mount_of(path: Path) -> Mount:
    """The uppermost mount that a file or directory is on. Raises Failure."""
    place = path.resolve()
    for point in (place, *place.parents):
        mount = mounted_at(point)
        if mount:
            return mount
    raise Failure(f"nothing is mounted at {path} or above it")


@contextlib.contextmanager
def opened(path: Path | str) -> Iterator[int]:
    """A descriptor of a file or a directory for reading. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def exclusive(device: str) -> bool:
    """Whether nobody else holds the device; the kernel refuses where any mount namespace has it mounted."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise
    return True


def plain(field: str) -> str:
    """Undo the octal escapes of /proc/*/mountinfo and /proc/swaps."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


class LoopInfo(ctypes.Structure):
    """struct loop_info64 of <linux/loop.h>."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("device", "inode", "rdevice", "offset", "sizelimit")),
        *((name, ctypes.c_uint32) for name in ("number", "encrypt_type", "encrypt_key_size", "flags")),
        ("names", ctypes.c_uint8 * (64 + 64 + 32)),
        ("init", ctypes.c_uint64 * 2),
    ]


def loops_on(device: int, inode: int) -> list[str]:
    """The loop devices on an image, found by device and inode: a path may be another file's by now."""
    backing_files = Path("/sys/block").glob("loop*/loop/backing_file")
    return [f"/dev/{backing.parts[3]}" for backing in backing_files if _behind(backing) == (device, inode)]


def _behind(backing: Path) -> tuple[int, int] | None:
    """Device and inode of the file behind a loop device, by its entry in sysfs; None when nothing is attached."""
    info = loop_info(f"/dev/{backing.parts[3]}")
    if info:
        return info.device, info.inode
    try:  # only root may ask the device; a user is told the path, which may be another file's by now
        stat = os.stat(backing.read_text(encoding="utf-8").strip())
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def loop_info(device: str) -> LoopInfo | None:
    """The kernel's data on a loop device; None when nothing is attached."""
    info = LoopInfo()
    try:
        with opened(device) as descriptor:
            fcntl.ioctl(descriptor, LOOP_GET_STATUS64, info)
    except OSError:
        return None
    return info


def remedy(error: OSError) -> str:
    """What helps where a user may not read, as the end of a sentence; '' where that does not."""
    if isinstance(error, PermissionError):
        return "; give the command as root, or name what this user may read"
    return ""


class Unread:
    """What below somebody's path could not be read: how many folders and files, and the last one with the reason."""

    def __init__(self) -> None:
        self.folders = 0
        self.files = 0
        self.last = ""
        self.remedy = ""

    def add(self, path: Path | str, error: OSError, folder: bool = False) -> None:
        """Count a folder or a file."""
        if folder:
            self.folders += 1
        else:
            self.files += 1
        self.last = f"{path}: {error.strerror}"
        self.remedy = remedy(error) or self.remedy

    def words(self) -> str:
        """'2 folders and 1 file could not be read, the last /mnt/lost+found: Permission denied'; '' for nothing."""
        parts = [counted(self.folders, "folder")] if self.folders else []
        if self.files:
            parts.append(counted(self.files, "file"))
        if parts:
            return f"{' and '.join(parts)} could not be read, the last {self.last}"
        return ""

    def summary(self) -> Json:
        """As JSON has it."""
        return {"folders": self.folders, "files": self.files, "last": self.last}


def regular_files(directory: Path, unread: Unread | None = None) -> Iterator[Path]:
    """Regular files below a directory, unordered, on its own file system only; links are not followed.

    What cannot be read is counted in `unread`, for whoever reads others' folders. Without it OSError is raised.
    """
    device = os.stat(directory).st_dev

    def lacking(error: OSError, folder: bool = True) -> None:
        if error.errno != errno.ENOENT:  # else it has gone meanwhile
            if unread is None:
                raise error
            unread.add(error.filename, error, folder)

    for folder, folders, names in os.walk(directory, onerror=lacking):
        same = []
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            try:
                stat_now = os.lstat(path)
            except OSError as error:
                lacking(error, name in folders)
                continue
            if stat_now.st_dev == device and stat.S_ISDIR(stat_now.st_mode):
                same.append(name)
            elif stat_now.st_dev == device and stat.S_ISREG(stat_now.st_mode):
                yield Path(path)
        folders[:] = same


AMBIVALENT = -2  # of blkid_do_safeprobe


def signature(device: str, what: str) -> str | None:
    """The UUID or TYPE in the superblock on a device or image, or None. Raises Failure where it cannot be read.

    It is what `blkid -p` does, without a process: in a guest a process costs a fifth of a second.
    """
    library = _libblkid()
    probe = library.blkid_new_probe_from_filename(os.fsencode(device))
    if not probe:
        raise Failure(f"{device} cannot be read: {os.strerror(ctypes.get_errno())}")
    try:
        found = library.blkid_do_safeprobe(probe)
        if found < 0:
            how = "has signatures of several file systems" if found == AMBIVALENT else "cannot be read"
            raise Failure(f"{device} {how} (libblkid); look at it with `wipefs {device}`")
        value = ctypes.c_char_p()
        if library.blkid_probe_lookup_value(probe, what.encode(), ctypes.byref(value), None) != 0:
            return None
        return (value.value or b"").decode("utf-8", "replace") or None
    finally:
        library.blkid_free_probe(probe)


@cache
def _libblkid() -> ctypes.CDLL:
    """The library below blkid(8), of util-linux."""
    library = ctypes.CDLL("libblkid.so.1", use_errno=True)
    library.blkid_new_probe_from_filename.restype = ctypes.c_void_p
    library.blkid_do_safeprobe.argtypes = [ctypes.c_void_p]
    text = ctypes.POINTER(ctypes.c_char_p)
    library.blkid_probe_lookup_value.argtypes = [ctypes.c_void_p, ctypes.c_char_p, text, ctypes.c_void_p]
    library.blkid_free_probe.argtypes = [ctypes.c_void_p]
    return library
