"""Crates of others: what a report needs of one is copied into a folder, within limits; nothing else is taken.

A crate is a folder or a zip. Links, devices, names that lead elsewhere and names that stand twice make it no crate, and
so does whatever is larger, or packed tighter, than any of fsage. What no report needs (raw output, figures) stays where
it is. Nothing in a crate names code: recipes, workloads and kinds of step are those that this fsage has.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from fsage.base import message
from fsage.dataset.tables import MOST_BYTES as MOST_TABLE_BYTES
from fsage.text.yaml_text import MOST_BYTES as MOST_YAML_BYTES

METADATA = "ro-crate-metadata.json"
TABLE = "results/records.parquet"
"""In place of records, where these stay at home."""
MOST_ENTRIES = 200_000
MOST_BYTES = 1 << 30
"""Most bytes of all that is taken: a study of 22,000 cells has a quarter of it."""
MOST_RATIO = 100
"""Most bytes for one packed byte; crates of fsage have 30 at most."""
ANY_RATIO_BYTES = 16 << 20
"""Up to here any ratio will do."""
MOST_LIST_BYTES = 16 << 20
"""Most bytes of a zip's own list of what is in it: Python keeps it in memory, fifteen times as large."""
MOST_JSON_BYTES = 16 << 20
STEP_BYTES = 1 << 16
FULL = (errno.ENOSPC, errno.EDQUOT)
NAME = r"[^/]+"
TAKEN = {
    METADATA: MOST_JSON_BYTES,
    re.escape(TABLE): MOST_TABLE_BYTES,
    rf"config/{NAME}\.yaml": MOST_YAML_BYTES,
    rf"inventories/{NAME}/group_vars/all/target\.yml": MOST_YAML_BYTES,
    rf"results/(records/{NAME}/{NAME}/{NAME}/{NAME}|targets/{NAME})\.json": MOST_JSON_BYTES,
    rf"results/(states|manifests)/{NAME}/{NAME}/{NAME}\.json": MOST_JSON_BYTES,
    rf"results/report/{NAME}/{NAME}/index\.html": 64 << 20,
}
"""What a report is made from, and the one that is there: the most bytes of each."""


class CrateError(ValueError):
    """A crate cannot be written or read; the message says which, why, and what is allowed."""


class Entry(NamedTuple):
    """One file of a crate: its name in it, how to open it, and how many bytes it is packed in."""

    name: str
    open: Callable[[], IO[bytes]]
    packed_bytes: int


@contextmanager
def unpacked(crate: Path, inside: Path | None = None) -> Iterator[Path]:
    """A folder with what a report needs of the crate, which goes at the end. Raises CrateError."""
    with tempfile.TemporaryDirectory(prefix=".fsage-remake-", dir=inside) as folder:
        try:
            if crate.is_dir():
                _take(_of_folder(crate), Path(folder))
            else:
                with message.open_file(crate) as stream, zipfile.ZipFile(_Guarded(stream)) as archive:
                    _take(_of_zip(archive), Path(folder))
        except message.NotTaken as error:
            raise CrateError(f"{crate}: {error}") from None
        except OSError as error:
            if error.errno in FULL:
                raise
            raise CrateError(f"{crate} cannot be read: {error.strerror or error}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            raise CrateError(f"{crate} is neither a folder nor a zip that can be read: {error}") from None
        yield Path(folder)


class _Guarded:
    """A stream that gives no more than a zip's list may have at once; all else is read in small steps."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.seek = stream.seek
        self.tell = stream.tell
        self.seekable = stream.seekable
        self.close = stream.close

    def read(self, size: int = -1) -> bytes:
        if size > MOST_LIST_BYTES:
            raise message.NotTaken(f"its list has {size:,} bytes; allowed are {MOST_LIST_BYTES:,}")
        return self._stream.read(MOST_LIST_BYTES if size is None or size < 0 else size)


def _of_folder(crate: Path) -> Iterator[Entry]:
    """The files below a folder; links are not followed."""
    folders = [(crate, "")]
    while folders:
        folder, prefix = folders.pop()
        with os.scandir(folder) as listing:
            for listed in sorted(listing, key=lambda entry: entry.name):
                name = f"{prefix}{listed.name}"
                mode = listed.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode):
                    folders.append((Path(listed.path), f"{name}/"))
                    continue
                if not stat.S_ISREG(mode):
                    raise message.NotTaken(f"{name!r} in it is a link or a device; only files and folders are taken")
                size = listed.stat(follow_symlinks=False).st_size
                yield Entry(name, partial(message.open_file, Path(listed.path), follow=False), size)


def _of_zip(archive: zipfile.ZipFile) -> Iterator[Entry]:
    """The files in a zip. Others than these two methods are unpacked without a bound: 3 kB of bzip2 into 8 GB."""
    for member in archive.infolist():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise message.NotTaken(
                f"{member.filename!r} in it is packed by method {member.compress_type}; only stored (0) and deflated "
                "(8) files are taken"
            )
        kind = stat.S_IFMT(member.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise message.NotTaken(f"{member.filename!r} in it is a link or a device; only files and folders are taken")
        if member.is_dir():
            _check(member.filename.rstrip("/"), set())
        else:
            yield Entry(member.filename, partial(archive.open, member), member.compress_size)


def _take(entries: Iterator[Entry], to: Path) -> None:
    """Check every name; copy what a report needs. Raises NotTaken."""
    names: set[str] = set()
    taken = packed = 0
    for number, entry in enumerate(entries, 1):
        if number > MOST_ENTRIES:
            raise message.NotTaken(f"it has more than {MOST_ENTRIES:,} files, the most that are taken")
        _check(entry.name, names)
        most = next((most for pattern, most in TAKEN.items() if re.fullmatch(pattern, entry.name)), None)
        if most is None:
            continue
        packed += entry.packed_bytes
        place = to / entry.name
        place.parent.mkdir(parents=True, exist_ok=True)
        size = 0
        with entry.open() as source, open(place, "xb") as target:
            while content := source.read(STEP_BYTES):
                size = size + len(content)
                taken = taken + len(content)
                if size > most:
                    raise message.NotTaken(f"{entry.name!r} in it has more than {most:,} bytes, the most that is taken")
                if taken > MOST_BYTES:
                    raise message.NotTaken(f"it has more than {MOST_BYTES:,} bytes to take, the most that is allowed")
                if taken > max(ANY_RATIO_BYTES, MOST_RATIO * packed):
                    raise message.NotTaken(f"it is packed tighter than 1 to {MOST_RATIO}, the most that is unpacked")
                target.write(content)


def _check(name: str, names: set[str]) -> None:
    """Raise NotTaken for a name that leads elsewhere, or that stood before, as itself or as a folder."""
    parts = name.split("/")
    if not name.isprintable() or "\\" in name or any(part in ("", ".", "..") for part in parts):
        raise message.NotTaken(f"{name!r} in it is no name of a file below the crate")
    if name in names:
        raise message.NotTaken(f"{name!r} stands in it twice")
    names.add(name)
