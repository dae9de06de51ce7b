"""The steps of states whose free space is copied, block by block.

`replica`: by a list of free extents. The original's metadata lie where its own mkfs put them. Where the target's lie
and the original is free, they differ; that, and the blocks of the maps, are noted.

`keep_free_space`: what is free stays free, and large files take the place of all others. So the state before is
measured once more without its files: what its free space alone costs (config/replica_validity.yaml).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path

from fsage.api.host import Quota, Target, Work, available_memory_bytes
from fsage.api.model import Failure, Shard, Step
from fsage.layouts import extents
from fsage.layouts.extents import Extents, Head
from fsage.layouts.store import NotThisText

from ..model import EXTENT_BYTES, KeepFreeSpace, Replica
from . import free_space_layout

MOST_BYTES = 1 << 30
"""Most bytes of a list of free extents."""
GZIP = 16 + zlib.MAX_WBITS


def _given(step: Replica, target: Target) -> tuple[Head, Extents]:
    """The list of free extents, as the request has it, or the file that it names. Raises Failure."""
    try:
        given = target.inputs[step.input or ""]
        if given.startswith("/"):
            packed = _content(Path(given))
            window = GZIP
        else:
            packed = base64.b64decode(given, validate=True)
            window = zlib.MAX_WBITS
        content = zlib.decompressobj(window)
        text = content.decompress(packed, MOST_BYTES)
        digest = hashlib.sha256(packed if given.startswith("/") else text).hexdigest()
        if not content.eof or digest != step.input:
            raise NotThisText("it is not the one that was named, or too long")
        del packed
        _refuse_too_many(step, text)
        head, free = extents.read(text.splitlines(keepends=True))
        return head, list(free)
    except KeyError:
        raise Failure(
            f"the request lacks the layout {step.layout}; `fsage request STUDY STATE` makes a complete request"
        ) from None
    except (NotThisText, binascii.Error, zlib.error) as error:
        raise Failure(f"the request's layout {step.layout}: {error}") from error
    except OSError as error:
        where = f"{error.filename} cannot be read on {os.uname().nodename}: {error.strerror}"
        raise Failure(f"the request's layout {step.layout}: {where}") from error


def _content(path: Path) -> bytes:
    """A file, whoever owns it, that is no link. Raises OSError, NotThisText."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
            raise NotThisText(f"{path} is no file of at most {MOST_BYTES >> 20} MiB")
        return file.read()


def _refuse_too_many(step: Replica, text: bytes) -> None:
    """Raise Failure where this machine has no memory for so many extents."""
    count = text.count(b"\n") - 3
    needed = EXTENT_BYTES * count
    if needed > (free := available_memory_bytes()):
        raise Failure(
            f"layout {step.layout} has {count:,} free extents, and to lay them takes {needed >> 20} MiB of memory; "
            f"{os.uname().nodename} has {free >> 20} MiB available. Stop what takes the rest, or lay a sample of the "
            "layout (fsage age --samples 5)"
        )


def replica(step: Replica, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Lay out the free space of the request's layout; notes of how far it agrees."""
    free_space_layout.check(target)
    kept_as = f"{(step.input or '')[:40]}-{'joined' if step.joined else 'copied'}"
    notes = free_space_layout.taken_again(target, kept_as)
    if not notes:
        layout = _given(step, target)
        notes = free_space_layout.lay(target, step.generation, step.layout, layout, step.joined, check_lease, kept_as)
    return Work(notes["files"], notes)


def keep_free_space(
    step: KeepFreeSpace, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]
) -> Work:
    """Read the free space, delete all files, and lay out the same free space again."""
    free_space_layout.check(target)
    target.remount()  # as for each cell
    layout = free_space_layout.read(target)
    Quota(target).remove_all()
    notes = free_space_layout.lay(
        target, step.generation, f"of {done[-1].describe()}", layout, step.joined, check_lease
    )
    return Work(notes["files"], notes)
