"""The device model `virtual`: a disk with seeks inside a guest, whose clock jumps over each of its waits.

One child of the guest's first process serves its disks, one after another. To start Python takes a guest a second. A
process that has forked pays again for each page that it writes to.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
from ctypes import byref, c_char, c_int64, c_size_t
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, TextIO

from fsage.api.host import DeviceModel, kernel, loops, make_folder, mounting
from fsage.api.model import ClaimedStore, Failure, Image, Json, in_words
from fsage.layouts import machine

from .. import model as facts
from . import seekdisk
from .seek import point_of

QUEUE = {"max_sectors_kb": 512, "scheduler": "mq-deadline"}
"""Requests of a loop device have at most 128 pieces of memory: longer ones are cut by which pages are neighbours.
Without a scheduler Linux 6.1 hands on the requests of one batch in reverse order."""


WRITE_OUT_NOW = 1 | 2 | 4  # sync_file_range(2), before and after


class GuestDisk(seekdisk.Disk):
    """A disk on an image of the machine outside (hostfs, which has no O_DIRECT).

    Zeros are noted and not written: so are the bytes of files that are measured. To move them out of the guest and back
    takes longer than all else that a cell does. The image is a copy, which goes with its cell. No request
    is given new memory here: each new page takes a guest long.
    """

    flags = os.O_RDWR
    zeros = mmap.mmap(-1, seekdisk.MAX_REQUEST_BYTES)

    def __init__(self, backing: Path, costs: seekdisk.Costs) -> None:
        super().__init__(backing, costs)
        self.noted = bytearray(self.size_bytes // seekdisk.PAGE_BYTES)  # 1 for each page of zeros

    def fetch(self, offset: int, size: int) -> seekdisk.Buffer:
        """Zeros without the image, where all are noted. Raises OSError."""
        pages = _pages(offset, size)
        if self.noted.find(0, pages.start, pages.stop) < 0:
            return memoryview(self.zeros)[:size]
        self._write_noted(pages)
        content = super().fetch(offset, size)
        self._let_go(offset, size)
        return content

    def store(self, offset: int, content: memoryview) -> int:
        """Note zeros, and write all else. Raises OSError."""
        size = len(content)
        pages = _pages(offset, size)
        whole = offset % seekdisk.PAGE_BYTES == size % seekdisk.PAGE_BYTES == 0
        if whole and not kernel.library.memcmp(_at(content), _at(self.zeros), c_size_t(size)):
            self.noted[pages] = b"\1" * (pages.stop - pages.start)
            return size
        self._write_noted(pages)
        done = os.pwritev(self.backing, [content], offset)
        self._let_go(offset, size)
        return done

    def _write_noted(self, pages: slice) -> None:
        """Write the zeros among some pages, of which not all are noted. Raises OSError."""
        for page in range(pages.start, pages.stop):
            if self.noted[page]:
                os.pwrite(self.backing, self.zeros[: seekdisk.PAGE_BYTES], page * seekdisk.PAGE_BYTES)
                self.noted[page] = 0

    def _let_go(self, offset: int, size: int) -> None:
        """Keep the guest's memory for the file system that is measured: it would lose what it has read."""
        kernel.library.sync_file_range(self.backing, c_int64(offset), c_int64(size), WRITE_OUT_NOW)
        os.posix_fadvise(self.backing, offset, size, os.POSIX_FADV_DONTNEED)


def _at(memory: memoryview | mmap.mmap) -> Any:
    return byref(c_char.from_buffer(memory))


def _pages(offset: int, size: int) -> slice:
    return slice(offset // seekdisk.PAGE_BYTES, -(-(offset + size) // seekdisk.PAGE_BYTES))


MOUNTED = "mounted"
ENDED = "ended"


class Server:
    """The child that serves this guest's disks, one at a time. Questions and answers are lines of JSON."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            try:
                ours.close()
                _serve_all(theirs.makefile("rw", encoding="utf-8"))
            finally:
                os._exit(0)
        theirs.close()  # so that the end of the child is the end of its answers
        self.talk = ours.makefile("rw", encoding="utf-8")

    def begin(self, image: str, point: Path, costs: seekdisk.Costs) -> None:
        """Have an image served at `point`. Raises Failure, OSError."""
        _say(self.talk, [image, str(point), asdict(costs)])
        answer = self._answer()
        if answer != MOUNTED:
            raise Failure(f"{image}: no modelled disk was mounted at {point}: {answer}")

    def end(self) -> None:
        """Wait until the disk that was unmounted is closed. Raises Failure."""
        answer = self._answer()
        if answer != ENDED:
            raise Failure(f"a modelled disk failed: {answer}")

    def _answer(self) -> object:
        return json.loads(self.talk.readline() or '"its server ended"')


def _serve_all(talk: TextIO) -> None:
    """Serve disks by request, each until it is unmounted: MOUNTED, then ENDED, or why there is none."""
    for line in talk:
        image, point, costs = json.loads(line)
        try:
            disk = GuestDisk(Path(image), seekdisk.Costs(**costs))
            seekdisk.serve(disk, point, lambda: _say(talk, MOUNTED))
            os.close(disk.backing)
            _say(talk, ENDED)
        except OSError as why:
            _say(talk, in_words(why))


def _say(talk: TextIO, words: object) -> None:
    print(json.dumps(words), file=talk, flush=True)


@cache
def server() -> Server:
    """The server, begun with the first disk."""
    return Server()


def _offered(point: Path) -> Image:
    path = str(point / seekdisk.NAME.decode())
    return {"image": path, **(loops.identity(path) or {"dev": 0, "ino": 0, "bytes": 0})}


class Virtual(DeviceModel, facts.Virtual):
    """A disk for the one store of a target in a guest."""

    @staticmethod
    def unavailable_because(declared: Json) -> str | None:
        """Why this machine itself has none."""
        return "device_model virtual is a disk inside a kernel that is a program: declare kind: uml, or kind: seek here"

    def disk(self, store: ClaimedStore) -> Image:
        """The file of the disk on the store's image, which is served from now on. Raises Failure."""
        point = point_of(store)
        if machine.mounted_at(point) is None:
            make_folder(point)
            server().begin(store["image"], point, seekdisk.Costs.of(self.parameters))
        return _offered(point)

    def put(self, devices: list[str]) -> Json | None:
        """Have requests cut and ordered in the same way each time."""
        for device in devices:
            for name, value in QUEUE.items():
                loops.set_knob(loops.queue_of(device) / name, value)
        return self.parameters

    @staticmethod
    def end_in_guest() -> None:
        for mount in machine.mounts():
            if mount.source.startswith(seekdisk.SOURCE):
                loops.detach(_offered(Path(mount.point)))
                mounting.unmount(Path(mount.point))
                server().end()


MODEL = Virtual
