"""What others do to file systems between two checks, as the kernel reports it (fanotify(7), Linux 6.0).

A mark on a whole file system reports each file that is opened, written, truncated, renamed, made or deleted, by
whatever name or handle. It does not report a store into a mapping, but the open before it. A report costs the writer
0.6 µs a write, and some µs for each new name. So the directory of measured files is left out; the cost of that did not
show beside a write of 4 KiB into the page cache.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from fsage.host.system import kernel

CLOEXEC = 0x1
NONBLOCK = 0x2
REPORT_FID = 0x200
REPORT_DIR_NAME = 0x400 | 0x800  # linux/fanotify.h
ADD = 0x1
OF_FILE_SYSTEM = 0x100
IGNORE_FOR_GOOD = 0x400 | 0x40
EVICTABLE = 0x200
MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
OPEN = 0x20
MOVED = 0x40 | 0x80
MADE = 0x100
DELETED = 0x200
ON_CHILD = 0x08000000
ON_DIRECTORY = 0x40000000
TOLD = MODIFY | ATTRIB | CLOSE_WRITE | OPEN | MOVED | MADE | DELETED | ON_DIRECTORY
EVENT = struct.Struct("=IBBHQii")  # length, version, reserved, bytes of this header, mask, descriptor, process
INFO_HEADER = struct.Struct("=BBH")  # type, padding, length
IN_DIRECTORY = 2  # type of the information that names the directory
AT_FDCWD = -100
CHUNK_BYTES = 1 << 16


class FileWatch:
    """A watch over mounted file systems, `mounts` by their devices. Raises OSError where the kernel allows none.

    It begins with `arm`. It leaves out what this process does, and files in the directory `own` of a mount. More events
    than the kernel's queue holds (16384) count as a change.
    """

    def __init__(self, mounts: Mapping[str, Path], own: str) -> None:
        self.mounts = mounts
        self.own = own
        self.disturbed = True
        self.writes: dict[str, str | None] = {}  # of the devices that are not mounted just now
        self.descriptor = _group()

    def arm(self) -> None:
        """Begin to watch, and forget earlier events. Raises OSError."""
        self.close()
        self.descriptor = _group()
        self.disturbed = False
        for mount in self.mounts.values():
            self._mark(mount)

    def quiet(self) -> bool:
        """Whether it is certain that nobody else touched a file since `arm`."""
        self.disturbed = self.disturbed or self._heard() or self._marks() < len(self.mounts)
        return not self.disturbed

    def lift(self) -> None:
        """Pause the watch until `arm`, for a command that it would slow down."""
        self.close()
        self.disturbed = True

    def unmounted(self, device: str) -> None:
        """Called when a file system has been unmounted and nobody has the device: the mark has gone with it."""
        self.writes[device] = _writes(device)

    @contextlib.contextmanager
    def mounting(self, device: str) -> Iterator[None]:
        """Mount it again inside. Whoever had it mounted in between has written to the device, at the latest at umount.

        What somebody does until the mark is there is not seen: some 0.1 ms, where nobody else sees the mount point.
        """
        before = self.writes.pop(device, None)
        if before is None or before != _writes(device):
            self.disturbed = True
        yield
        if self.descriptor >= 0:
            try:
                self._mark(self.mounts[device])
            except OSError:
                self.disturbed = True

    def close(self) -> None:
        """End it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
        self.descriptor = -1

    def _mark(self, mount: Path) -> None:
        self._call(ADD | OF_FILE_SYSTEM, TOLD, mount)
        self._call(ADD | IGNORE_FOR_GOOD | EVICTABLE, TOLD | ON_CHILD, mount / self.own)

    def _call(self, flags: int, mask: int, path: Path) -> None:
        name = os.fsencode(path)
        code = kernel.library.fanotify_mark(self.descriptor, flags, ctypes.c_uint64(mask), AT_FDCWD, name)
        kernel.check(code, str(path))

    def _marks(self) -> int:
        """File systems with a mark: it goes where somebody unmounts one."""
        text = Path(f"/proc/self/fdinfo/{self.descriptor}").read_text()
        return text.count("fanotify sdev:")

    def _heard(self) -> bool:
        """Whether there is an event of somebody else's that may mean a change; what comes after it is left unread."""
        while True:
            try:
                chunk = os.read(self.descriptor, CHUNK_BYTES)
            except BlockingIOError:
                return False
            offset = 0
            while offset < len(chunk):
                length, _, _, header, mask, _, process = EVENT.unpack_from(chunk, offset)
                if process != os.getpid() and not _harmless(mask, chunk[offset + header : offset + length]):
                    return True
                offset += length


def _group() -> int:
    descriptor: int = kernel.library.fanotify_init(CLOEXEC | NONBLOCK | REPORT_FID | REPORT_DIR_NAME, os.O_RDONLY)
    if descriptor < 0:
        raise kernel.error()
    return descriptor


def _harmless(mask: int, information: bytes) -> bool:
    """Whether nothing was changed: a directory was looked into, or a file lost a name, which is an event of its own."""
    if mask == OPEN | ON_DIRECTORY:
        return True
    return mask == ATTRIB and IN_DIRECTORY not in _types(information)


def _types(information: bytes) -> list[int]:
    types = list[int]()
    offset = 0
    while offset < len(information):
        kind, _, length = INFO_HEADER.unpack_from(information, offset)
        types.append(kind)
        offset += length
    return types


def _writes(device: str) -> str | None:
    """Writes and discards that a block device has completed, and their sectors; None where they are not counted.

    Linux, Documentation/block/stat.rst.
    """
    place = kernel.folder_of(kernel.number_of(device))
    if (place / "queue/iostats").read_text().strip() == "0":
        return None
    words = (place / "stat").read_text().split()
    return " ".join((words[4], words[6], *words[11:12], *words[13:14]))
