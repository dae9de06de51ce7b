"""Files that somebody hands us: only regular ones are opened, so that none hangs, and no more is read than allowed."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from typing import IO

KINDS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a FIFO",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


class NotTaken(ValueError):
    """Content is not read: why, as the end of a sentence that begins with its name."""


def open_file(path: Path | str, follow: bool = True) -> io.BufferedReader:
    """Open a regular file. Raises NotTaken for what is none, and OSError.

    It is looked at before it is opened, since opening moves some devices, and again when it is open.
    """
    check_regular(os.stat(path, follow_symlinks=follow).st_mode)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        check_regular(os.fstat(fd).st_mode)
    except NotTaken:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def check_regular(mode: int) -> None:
    """Raise NotTaken for the mode of what is no regular file."""
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in KINDS.items() if is_kind(mode)), "a link")
        raise NotTaken(f"it is {kind}, where a file is expected")


def check_place(path: Path) -> None:
    """Raise ValueError where no file is put: a folder, a device or a pipe is there, or a link to one.

    A file that is renamed into its place would take the place of /dev/null too, for all of the machine.
    """
    try:
        check_regular(path.stat().st_mode)
    except OSError:  # nothing is there, or whoever writes says why that cannot be
        return
    except NotTaken as why:
        raise ValueError(f"{path}: {why}; it is left as it is") from None


def bounded(stream: IO[bytes], most_bytes: int) -> bytes:
    """All of a stream. Raises NotTaken when there is more than allowed."""
    content = stream.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise NotTaken(f"it is longer than {most_bytes:,} bytes, the most that is read")
    return content


def read_file(path: Path | str, most_bytes: int) -> bytes:
    """All of a regular file. Raises NotTaken, OSError."""
    with open_file(path) as stream:
        return bounded(stream, most_bytes)
