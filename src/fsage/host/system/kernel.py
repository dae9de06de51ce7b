"""The kernel of this host: system calls that Python does not have, open files, block devices, and waiting for it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator
from ctypes import c_int64
from pathlib import Path

PR_SET_PDEATHSIG = 1  # prctl(2)
KEEP_SIZE = 1
PUNCH_HOLE = 2  # fallocate(2)

library = ctypes.CDLL(None, use_errno=True)


def error(what: str = "") -> OSError:
    """What the last call of this thread failed with; `what` it was about, such as a path."""
    code = ctypes.get_errno()
    if what:
        return OSError(code, os.strerror(code), what)
    return OSError(code, os.strerror(code))


def check(code: int, what: str = "") -> None:
    """Raise OSError where a call of `library` returned another code than 0."""
    if code:
        raise error(what)


def allocate(descriptor: int, mode: int, offset: int, size: int) -> None:
    """fallocate(2) with a mode, which Python's os module lacks. Raises OSError."""
    check(library.fallocate(descriptor, mode, c_int64(offset), c_int64(size)))


@contextlib.contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Close a descriptor when the block ends."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def opened(path: Path | str, flags: int = os.O_RDONLY) -> contextlib.AbstractContextManager[int]:
    """A descriptor of a file while the block runs; programs that are started do not inherit it. Raises OSError."""
    return closing(os.open(path, flags, 0o600))


def opened_folder(path: Path | str) -> contextlib.AbstractContextManager[int]:
    """A descriptor of a directory while the block runs. Raises OSError."""
    return opened(path, os.O_RDONLY | os.O_DIRECTORY)


def number_of(device: str) -> str:
    """`major:minor` of a block device. Raises OSError."""
    return shown_number(os.stat(device).st_rdev)


def shown_number(number: int) -> str:
    """A device's number as the kernel writes it: `major:minor`."""
    return f"{os.major(number)}:{os.minor(number)}"


def as_number(shown: str) -> int:
    """The number of a device that the kernel writes as `major:minor`."""
    major, minor = shown.split(":")
    return os.makedev(int(major), int(minor))


def folder_of(number: str) -> Path:
    """What sysfs has of the block device with this number (`major:minor`)."""
    return Path("/sys/dev/block", number)


def attempts(patience_s: float, pause_s: float) -> Iterator[bool]:
    """Attempts with a pause between them; each is told whether it is the last one, because the time is over."""
    deadline = time.monotonic() + patience_s
    while True:
        yield time.monotonic() > deadline
        time.sleep(pause_s)
