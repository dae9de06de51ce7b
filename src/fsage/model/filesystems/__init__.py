"""The local file systems that a target can be, one module each, named after it: how each is called.

A module has `FILESYSTEM`. What a host does with such a file system is in the module of fsage.host.filesystems of the
same name.
"""

from __future__ import annotations

from typing import NamedTuple

from fsage.model import plugins
from fsage.model.errors import Refusal


class Defragmenter(NamedTuple):
    """What defragments one file, and the package (of apt and dnf alike) that has it."""

    command: tuple[str, ...]
    version_command: tuple[str, ...]
    package: str


class FileSystem:
    """A local file system that a target can be."""

    name: str
    """As the kernel, blkid and a declaration name it."""
    title: str
    """As sentences name it."""
    like: tuple[str, ...] = ()
    """Other names of the kernel's under which the same layout is read, such as ext3."""
    defragmenter: Defragmenter | None = None
    """What defragments its files."""


def names() -> list[str]:
    """Names of the file systems there are."""
    return plugins.names(__name__)


def get(name: str | None) -> FileSystem | None:
    """The file system of this name; None where a target can be none such."""
    if name not in names():
        return None
    found: FileSystem = plugins.module(__name__, name).FILESYSTEM
    return found


def of(name: str) -> FileSystem:
    """The file system of this name. Raises Refusal where there is none."""
    if not (found := get(name)):
        raise Refusal(f"no target can be {name!r:.100}: there are {', '.join(names())}")
    return found


def like(name: str | None) -> FileSystem | None:
    """As which file system one of this name, the kernel's, is read; None where none can."""
    return get(name) or next((found for found in map(of, names()) if name in found.like), None)


def titles() -> str:
    """Those whose layout is read, in words: "btrfs, ext4 (ldiskfs) and XFS"."""
    *most, last = (of(name).title for name in names())
    return f"{', '.join(most)} and {last}" if most else last
