"""How files of a state get their directories, their blocks and their bytes.

Nothing here counts the bytes: a step or a cell makes files by the quota of its target (fsage.host.structure.quota).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from fsage.base import Call
from fsage.host.system import kernel, places
from fsage.model.structure import SHARD, Method, folder_of

WRITE_BYTES = 1 << 20
FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW


def make_room(mounts: list[Path], generation: int, count: int = 1) -> None:
    """Make the directories for `count` files of a generation, on each store. No symbolic link is followed."""
    for mount in mounts:
        for first in range(0, max(1, count), SHARD):
            make_folder(mount, folder_of(generation, first))


def make_folder(mount: Path, name: str) -> None:
    """Make one directory of filler files. No symbolic link is followed."""
    path = mount / "filler" / name
    with places.opened(mount) as store, places.inside(store, "filler", path.parent, places.PRIVATE) as filler:
        places.make_in(filler, path)


OURS = (".fsage", "filler", "measured", "lost+found")
"""The entries in a store's root that fsage or mkfs makes."""


def remove_all(mount: Path) -> None:
    """Remove all filler files of a store, and what others made there; what a link leads to stays. Raises Failure."""
    path = mount / "filler"
    with places.opened(mount) as store:
        with places.inside(store, path.name, path, places.PRIVATE) as filler:
            places.empty(filler, path)
        for name in sorted(set(os.listdir(store)) - set(OURS)):
            places.remove_in(store, mount / name)


def append(path: Path, content: memoryview, flush: bool) -> None:
    """Append to a file through the cache; `flush`: it reaches the device at once. Raises OSError."""
    with kernel.opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW) as descriptor:
        done = 0
        while done < len(content):
            done += os.write(descriptor, content[done:])
        if flush:
            os.fdatasync(descriptor)


def in_turns(
    paths: Sequence[Path],
    sizes: Sequence[int],
    request_bytes: int,
    method: Method,
    check_lease: Call = lambda: None,
    spend: Callable[[int], None] = lambda size: None,
) -> None:
    """Make files that grow at the same time: each gets one request, then each the next, until all have their sizes.

    One thread makes them in a fixed order, so they get the same blocks each time. `method`: `fallocate` gives blocks
    without writing them, `write` writes past the cache (whole 4 KiB), `buffered` writes through the cache and flushes
    each file at its end. Files that exist are made anew. `spend` is called after each request, with the bytes that it
    wrote. Raises OSError that names the file.
    """
    flags = FRESH | (os.O_DIRECT if method == "write" else 0)
    growing: list[tuple[Path, int, int]] = []
    at = Path()  # no more lines than needed: they run for each of a hundred thousand small files
    content = memoryview(b"") if method == "fallocate" else noise(request_bytes)
    try:
        for at, size in zip(paths, sizes):
            growing.append((at, size, os.open(at, flags, 0o600)))
        for offset in range(0, max(sizes, default=0), request_bytes):
            check_lease()
            for path, size, descriptor in growing:
                at = path
                part = min(request_bytes, size - offset)
                if part > 0 and method == "fallocate":
                    os.posix_fallocate(descriptor, offset, part)
                elif part > 0:
                    write_whole(descriptor, content[:part], offset)
                spend(0 if method == "fallocate" else max(0, part))
        if method == "buffered":
            for path, _, descriptor in growing:
                at = path
                os.fsync(descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(at)) from error
    finally:
        for *_, descriptor in reversed(growing):
            os.close(descriptor)


def fallocate(path: Path, size: int, spend: Callable[[int], None] = lambda size: None) -> None:
    """Allocate a file's blocks in one request, without writing them."""
    in_turns([path], [size], size, "fallocate", spend=spend)


def write(path: Path, size: int, spend: Callable[[int], None] = lambda size: None) -> None:
    """Write a file past the cache, in requests of WRITE_BYTES; a file that exists is truncated first."""
    in_turns([path], [size], WRITE_BYTES, "write", spend=spend)


def fill(fd: int, size: int) -> None:
    """Write `size` random bytes over an open file, from its beginning."""
    content = noise(WRITE_BYTES)
    for offset in range(0, size, WRITE_BYTES):
        write_whole(fd, content[: size - offset], offset)


page_of_content: Callable[[int], bytes] = os.urandom
"""What files hold: random bytes, which no device leaves out. In a guest they are zeros, so that images have holes."""


def noise(size: int) -> memoryview:
    """What files are filled with, in whole pages, as O_DIRECT asks."""
    buffer = mmap.mmap(-1, size)
    page = page_of_content(4096)
    if any(page):  # new memory is zeros, and a guest takes long to have a page that is touched
        buffer.write((page * -(-size // 4096))[:size])
    # Not closed: the traceback of a failed write still refers to the buffer, and close() would raise another error.
    return memoryview(buffer)


def write_whole(fd: int, content: memoryview, offset: int) -> None:
    """pwrite(2) until all is written. Raises OSError."""
    done = 0
    while done < len(content):
        done += os.pwrite(fd, content[done:], offset + done)
