"""Calls that may never come back: made by a child process, which is left behind at a time limit.

The allocator of a full ext4 can search for hours within one call, and looks at no signal meanwhile. Then the file
system is shut down (EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN: the same number), which ends the search. What was not
written back by then is lost: only the cell's own files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import select
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fsage.model.errors import in_words
from fsage.model.typed import Json

SHUTDOWN = 0x8004587D
WITHOUT_LOG = struct.pack("=I", 2)
LOOKS = 20
LOOK_S = 0.05
KILLED_S = 1.0
FREED_S = 30.0
FUNCTION = re.compile(r"\] (\w+)\+")


def results(work: Callable[[], Iterator[Json]], mount: Path, limit_s: float) -> Iterator[Json]:
    """What `work` yields in a child process, each within the time limit.

    Where it takes longer the last one is {"unended": True, "seconds", "cpu_s", "functions", "freed_by"}: how much
    processor time the child has taken, where in the kernel it was seen, and what ended it (None: it goes on).
    """
    descriptor = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)  # while the file system still answers
    read_end, write_end = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        os.close(read_end)
        _child(work, write_end)
    os.close(write_end)
    try:
        text = b""
        while True:
            if not select.select([read_end], [], [], limit_s)[0]:
                yield _left(child, descriptor, began)
                return
            chunk = os.read(read_end, 1 << 16)
            if not chunk:
                os.waitpid(child, 0)
                return
            *lines, text = (text + chunk).split(b"\n")
            began = time.monotonic()
            yield from map(json.loads, lines)
    finally:
        os.close(read_end)
        os.close(descriptor)


def timed(call: Callable[[], object]) -> Json:
    """Seconds and processor time of a call; `error`: the name of what it was refused with."""
    refused = None
    began = time.monotonic()
    cpu_s = time.thread_time()
    try:
        call()
    except OSError as error:
        refused = errno.errorcode.get(error.errno or 0, in_words(error))
    return {"cpu_s": time.thread_time() - cpu_s, "seconds": time.monotonic() - began, "error": refused}


def _child(work: Callable[[], Iterator[Json]], write_end: int) -> None:
    """Never returns. The pipes of the command are not held: nobody waits for a child that is left behind."""
    code = 1
    with contextlib.suppress(BaseException):
        with open(os.devnull, "r+b") as nothing:
            for standard in range(3):
                os.dup2(nothing.fileno(), standard)
        for result in work():
            os.write(write_end, json.dumps(result).encode() + b"\n")
        code = 0
    os._exit(code)


def _left(child: int, mount: int, began: float) -> Json:
    """What the child is at. It is killed; where it does not look at signals, the file system is shut down."""
    functions: dict[str, int] = {}
    for _ in range(LOOKS):
        with contextlib.suppress(OSError):  # only root may look
            for name in set(FUNCTION.findall(Path(f"/proc/{child}/stack").read_text(encoding="ascii"))):
                functions[name] = functions.get(name, 0) + 1
        time.sleep(LOOK_S)
    words = Path(f"/proc/{child}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    cpu_s = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    os.kill(child, signal.SIGKILL)
    result: Json = {"unended": True, "seconds": time.monotonic() - began, "cpu_s": cpu_s, "functions": functions}
    if _ends(child, KILLED_S):
        return {**result, "freed_by": "SIGKILL"}
    try:
        fcntl.ioctl(mount, SHUTDOWN, WITHOUT_LOG)
    except OSError as error:
        return {**result, "freed_by": None, "why_none": f"no shutdown: {error.strerror}"}
    return {**result, "freed_by": "shutdown" if _ends(child, FREED_S) else None}


def _ends(child: int, patience_s: float) -> bool:
    late = time.monotonic() + patience_s
    while os.waitpid(child, os.WNOHANG)[0] != child:
        if time.monotonic() > late:
            return False
        time.sleep(LOOK_S)
    return True
