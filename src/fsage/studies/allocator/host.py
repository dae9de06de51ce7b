"""What hosts do for it: planted free space, and the calls that are timed, each where it can be left behind.

Step `plant_free_space`: free space is laid out where it was planned, block by block, as that of a replica is.

A phase is `python -m fsage.studies.allocator.host TASK.json`, which prints what came of its calls as JSON. Root runs
it, for nobody else may shut a file system down. Calls may never come back: they are made by a child process, which is
left behind at a time limit. The allocator of a full ext4 can search for hours within one call, and looks at no signal
meanwhile. Then the file system is shut down (EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN: the same number), which ends the
search. What was not written back by then is lost: only the cell's own files.
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
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from fsage.api.host import Target, Work, caches, kernel
from fsage.api.model import BLOCK_BYTES, Failure, Json, Shard, Step, in_words, tools
from fsage.layouts import fiemap
from fsage.studies.replica.host import free_space_layout

from .model import Assignment, PlantFreeSpace

SHUTDOWN = 0x8004587D
WITHOUT_LOG = struct.pack("=I", 2)
LOOKS = 20
CHILD_LOOK_S = 0.05
KILLED_S = 1.0
FREED_S = 30.0
USER_TICKS, SYSTEM_TICKS, PROCESSOR = 11, 12, 36
FUNCTION = re.compile(r"\] (\w+)\+")


def results(work: Callable[[], Iterator[Json]], mount: Path, limit_s: float) -> Iterator[Json]:
    """What `work` yields in a child process, each within the time limit.

    Where it takes longer the last one is {"unended": True, "seconds", "cpu_s", "functions", "freed_by"}: how much
    processor time the child has taken, where in the kernel it was seen, and what ended it (None: it goes on).
    Raises Failure where the child ends before `work` does.
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
                if os.waitpid(child, 0)[1]:
                    raise Failure(f"the process that makes the calls ended early: {text.decode() or 'it was killed'}")
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
    try:
        with open(os.devnull, "r+b") as nothing:
            for standard in range(3):
                os.dup2(nothing.fileno(), standard)
        for result in work():
            os.write(write_end, json.dumps(result).encode() + b"\n")
        code = 0
    except BaseException as why:
        os.write(write_end, repr(why).encode())
    finally:
        os._exit(code)


def _left(child: int, mount: int, began: float) -> Json:
    """What the child is at. It is killed; where it does not look at signals, the file system is shut down."""
    functions: dict[str, int] = {}
    looking = threading.Thread(target=_look, args=(child, functions), daemon=True)
    looking.start()
    looking.join(2 * LOOKS * CHILD_LOOK_S)
    fields = _stat(child)
    cpu_s = (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / os.sysconf("SC_CLK_TCK")
    os.kill(child, signal.SIGKILL)
    seconds = time.monotonic() - began
    result: Json = {"unended": True, "seconds": seconds, "cpu_s": cpu_s, "functions": dict(functions)}
    if _ends(child, KILLED_S):
        return {**result, "freed_by": "SIGKILL"}
    try:
        fcntl.ioctl(mount, SHUTDOWN, WITHOUT_LOG)
    except OSError as error:
        return {**result, "freed_by": None, "why_none": f"no shutdown: {error.strerror}"}
    return {**result, "freed_by": "shutdown" if _ends(child, FREED_S) else None}


def _look(child: int, functions: dict[str, int]) -> None:
    """Count in which kernel functions the child is seen. Only root may look.

    A stack is readable only while its process does not run (`task_on_another_cpu` in unwind_orc.c). So the looks are
    made on the child's own processor, from which each one displaces it. A call that never yields would keep the looks
    waiting for as long: so they are a thread's, and nobody waits for that thread.
    """
    with contextlib.suppress(OSError):
        processor = {int(_stat(child)[PROCESSOR])}
        os.sched_setaffinity(child, processor)
        os.sched_setaffinity(0, processor)
    for _ in range(LOOKS):
        time.sleep(CHILD_LOOK_S)
        with contextlib.suppress(OSError):
            for name in set(FUNCTION.findall(Path(f"/proc/{child}/stack").read_text(encoding="ascii"))):
                functions[name] = functions.get(name, 0) + 1


def _stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on: the second is the program's name, with any character."""
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _ends(child: int, patience_s: float) -> bool:
    late = time.monotonic() + patience_s
    while os.waitpid(child, os.WNOHANG)[0] != child:
        if time.monotonic() > late:
            return False
        time.sleep(CHILD_LOOK_S)
    return True


GROUP_BLOCKS_A_BYTE = 8


def plant_free_space(
    step: PlantFreeSpace, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]
) -> Work:
    """Lay it out; notes of what is free now, and of the group in which the run lies."""
    head, usable = free_space_layout.read(target)
    try:
        wanted = step.wanted(usable)
    except ValueError as why:
        raise Failure(f"target {target.name}: {why}") from None
    name = f"of {step.fullness_percent:g}% full"
    notes = free_space_layout.lay(target, step.generation, name, (head, wanted), False, check_lease)
    group_bytes = GROUP_BLOCKS_A_BYTE * head.block_bytes**2  # of ext4: a block of its bitmap
    notes["groups"] = -(-head.device_bytes // group_bytes)
    if step.run_bytes:
        start = next(start for start, end in wanted if end - start == step.run_bytes)
        notes["run_group"] = start // group_bytes
    return Work(notes["files"], notes)


FRESH = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
STILL_S = 1.0
LOOK_S = 0.001
MOST_CALLS = 200
"""How many of the calls that filled the target are kept: the slowest."""


def fallocate(assignment: Assignment) -> Iterator[Json]:
    """One call for all bytes of a new file."""
    with kernel.opened(Path(assignment.folder) / "asked", FRESH) as descriptor:
        call = timed(partial(os.posix_fallocate, descriptor, 0, assignment.request_bytes))
    yield call


def fill(assignment: Assignment) -> Iterator[Json]:
    """Call after call until nothing is left: half as much where there is no room for so much."""
    place = Path(assignment.folder)
    size = assignment.request_bytes
    number = 0
    descriptor = os.open(place / "asked.0", FRESH, 0o600)
    offset = 0
    while size >= BLOCK_BYTES:
        call = timed(partial(os.posix_fallocate, descriptor, offset, size))
        yield {**call, "bytes": size}
        if call["error"] == errno.errorcode[errno.ENOSPC]:
            size = size // 2 // BLOCK_BYTES * BLOCK_BYTES
        elif call["error"] == errno.errorcode[errno.EFBIG]:
            number = number + 1
            offset = 0
            os.close(descriptor)
            descriptor = os.open(place / f"asked.{number}", FRESH, 0o600)
        elif call["error"]:
            return
        else:
            offset += size


def make(assignment: Assignment) -> Iterator[Json]:
    """A file of so many extents of one block each, in turns with another, which holds what is between them.

    Every second block of it is a hole: its extents stay apart where two of them meet on the device.
    """
    place = Path(assignment.folder)
    paths = [place / "pieces", *([place / "between"] if assignment.extents > 1 else [])]
    descriptors = [os.open(path, FRESH, 0o600) for path in paths]

    def both() -> None:
        for number in range(assignment.extents):
            for descriptor in descriptors:
                os.posix_fallocate(descriptor, 2 * number * BLOCK_BYTES, BLOCK_BYTES)

    refused = timed(both)["error"]
    caches.flush(place)
    yield {"extents": len(fiemap.extents(paths[0])), "error": refused}


def warm_up(assignment: Assignment) -> Iterator[Json]:
    """The call that is to be timed next; what it gets is given back."""
    yield from fallocate(assignment)
    yield _unlinked(Path(assignment.folder) / "asked", assignment.request_bytes // BLOCK_BYTES)


def unlink(assignment: Assignment) -> Iterator[Json]:
    """Unlink the file, and wait until its blocks are free."""
    yield _unlinked(Path(assignment.folder) / "pieces", assignment.extents)


def _unlinked(path: Path, blocks: int) -> Json:
    """What unlinking a file took, and how long until so many more blocks were free, or no more came (btrfs)."""
    wanted = _free(path.parent) + blocks
    began = time.monotonic()
    call = timed(path.unlink)
    caches.flush(path.parent)
    free = _free(path.parent)
    changed = time.monotonic()
    while free < wanted and time.monotonic() < changed + STILL_S:
        time.sleep(LOOK_S)
        now = _free(path.parent)
        if now != free:
            free = now
            changed = time.monotonic()
    return {**call, "freed_s": changed - began}


def _free(place: Path) -> int:
    return os.statvfs(place).f_bfree


OPERATIONS: dict[str, Callable[[Assignment], Iterator[Json]]] = {
    "warm_up": warm_up,
    "fallocate": fallocate,
    "fill": fill,
    "make": make,
    "unlink": unlink,
}


def run(assignment: Assignment) -> Json:
    """The calls of a phase, how many they were, and the bytes that they gave. Raises Failure where there are none."""
    work = partial(OPERATIONS[assignment.operation], assignment)
    calls = list(results(work, Path(assignment.folder), assignment.limit_s))
    if not calls:
        raise Failure("the calls ended without a result")
    given = sum(call.get("bytes", 0) for call in calls if not call.get("error"))
    kept = calls
    if len(calls) > MOST_CALLS:
        kept = [*sorted(calls[:-1], key=lambda call: -call["seconds"])[: MOST_CALLS - 1], calls[-1]]
    return {"count": len(calls), "bytes": given, "calls": kept}


if __name__ == "__main__":
    sys.exit(tools.program_main(Assignment, run, sys.argv[1]))
