"""What a file is: its content by SHA-256, and all about it that a defragmentation must leave as it was."""

from __future__ import annotations

import hashlib
import os
from enum import StrEnum
from pathlib import Path
from typing import Any

KEPT = ("mtime_ns", "uid", "gid", "mode", "xattrs")


class Verdict(StrEnum):
    """What became of a file's content."""

    WHOLE = "whole"
    CHANGED = "changed"
    DAMAGED = "damaged"
    GONE = "gone"


def identity(path: Path) -> dict[str, Any]:
    """bytes, mtime_ns, uid, gid, mode, xattrs (name -> SHA-256), sha256 of the content. Raises OSError.

    The content is written out and then read from the device, not from memory. The time of access is left alone where
    that is allowed.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NOATIME)
    except PermissionError:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    with open(fd, "rb", buffering=0) as file:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        found = os.fstat(fd)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        xattrs = {name: hashlib.sha256(os.getxattr(fd, name)).hexdigest() for name in sorted(os.listxattr(fd))}
    return {
        "bytes": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "uid": found.st_uid,
        "gid": found.st_gid,
        "mode": found.st_mode,
        "xattrs": xattrs,
        "sha256": sha256,
    }


def verdict(path: Path, noted: dict[str, Any]) -> tuple[Verdict, str]:
    """What became of a file that was `noted` (`identity`) before, and in words that follow its name. Raises OSError.

    Another content with the same size and time of change is damage; with another one somebody has written to the file,
    and whether anything was lost cannot be told.
    """
    try:
        now = identity(path)
    except FileNotFoundError:
        return Verdict.GONE, "is gone: somebody removed or renamed it"
    other = [name for name in KEPT if now[name] != noted[name]]
    if now["sha256"] == noted["sha256"]:
        return Verdict.WHOLE, f"is whole; other than before: {', '.join(other)}" if other else "is whole"
    if now["bytes"] != noted["bytes"] or "mtime_ns" in other:
        return Verdict.CHANGED, "was written to by somebody meanwhile: its content and its time of change are new"
    words = f"is DAMAGED: its SHA-256 is {now['sha256']}, and was {noted['sha256']}; nothing more is touched"
    return Verdict.DAMAGED, f"{words}; take it from a backup"
