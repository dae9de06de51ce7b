"""The process that looks: it looks up a name, and reads and writes a little past the cache, as others would.

    python -m fsage.studies.neighbours.instruments.looks FOLDER FILES

It has a process of its own, for a thread beside others waits for Python's lock, and seems slow where no disk is. On
standard input it gets words, a line each: `go` (look from now on), `rest`, and `look` (once). Each look is a line of
JSON on standard output. It ends when its input does. FILES names the files in the FOLDER, as JSON.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import random
import select
import struct
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fsage.api.model import PROBE_EVERY_S, Json

FILE_BYTES = 1 << 20
LOOK_BYTES = 1 << 16
FIRST_S = 0.1
"""The first look is so long after `go`, the next ones twice as long after each other, up to PROBE_EVERY_S."""
THREADS = 16
ADVISE = 0x802066FA  # LL_IOC_LADVISE, _IOR('f', 250, 32 bytes)
DONT_NEED = struct.pack("=IIQIIQ HHIQQII", 0x1ADF1CE0, 1, 0, 0, 0, 0, 2, 0, 0, 0, FILE_BYTES, 0, 0)
"""lustre_user.h: a header of one advice, that the servers do not need a file's pages."""


class Looker:
    """Looks at files of FILE_BYTES, by name: in each a place is read and another one written."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.folder = folder
        self.descriptors = {
            name: os.open(path, os.O_RDWR | os.O_DIRECT | os.O_NOFOLLOW) for name, path in files.items()
        }
        self.pool = ThreadPoolExecutor(min(THREADS, len(files)))
        self.own = threading.local()

    def look(self) -> Json:
        """How many ms each part took: `stat`, and for each file `read NAME` and `write NAME`."""
        at = time.monotonic()
        took = {"at": at}
        with contextlib.suppress(FileNotFoundError):
            os.lstat(self.folder / uuid.uuid4().hex)  # which no cache knows
        took["stat"] = 1000 * (time.monotonic() - at)
        for of_file in self.pool.map(self._of_file, self.descriptors):
            took.update(of_file)
        return {name: round(value, 4) for name, value in took.items()}

    def _of_file(self, name: str) -> dict[str, float]:
        descriptor = self.descriptors[name]
        if not hasattr(self.own, "buffer"):
            self.own.buffer = mmap.mmap(-1, LOOK_BYTES)
            self.own.buffer.write(os.urandom(LOOK_BYTES))
        with contextlib.suppress(OSError):  # no Lustre, or an old one
            fcntl.ioctl(descriptor, ADVISE, DONT_NEED)
        places = random.sample(range(0, FILE_BYTES, LOOK_BYTES), 2)
        began = time.monotonic()
        os.preadv(descriptor, [self.own.buffer], places[0])
        between = time.monotonic()
        os.pwritev(descriptor, [self.own.buffer], places[1])
        ended = time.monotonic()
        return {f"read {name}".strip(): 1000 * (between - began), f"write {name}".strip(): 1000 * (ended - between)}


def main() -> None:
    """Look as the words on standard input say."""
    looker = Looker(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    text = b""
    due = float("inf")
    gap_s = FIRST_S
    while True:
        if b"\n" not in text:
            wait_s = None if due == float("inf") else max(0.0, due - time.monotonic())
            if not select.select([0], [], [], wait_s)[0]:
                say(looker, beside=True)
                gap_s = min(2 * gap_s, PROBE_EVERY_S)
                due = time.monotonic() + gap_s
                continue
            more = os.read(0, 1 << 16)
            if not more:
                return
            text += more
            continue
        word, _, text = text.partition(b"\n")
        if word == b"look":
            say(looker, beside=False)
        elif word == b"rest":
            due = float("inf")
        else:
            gap_s = FIRST_S
            due = time.monotonic() + FIRST_S


def say(looker: Looker, beside: bool) -> None:
    """Look, and say what was seen; `beside`: while the target is worked on."""
    try:
        seen = looker.look()
    except OSError as error:
        seen = {"at": time.monotonic(), "failed": str(error.strerror)}
    os.write(1, json.dumps({**seen, "beside": beside}).encode() + b"\n")


if __name__ == "__main__":
    main()
