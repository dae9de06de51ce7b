"""One phase: `python -m fsage.studies.allocator.host.phase TASK.json` prints what came of its calls as JSON.

Root runs it, for nobody else may shut a file system down.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from fsage.host.stores import fiemap
from fsage.host.system import caches
from fsage.model import typed
from fsage.model.errors import in_words
from fsage.model.message import Unacceptable
from fsage.model.structure import BLOCK_BYTES
from fsage.model.typed import Json
from fsage.studies.allocator.host import bounded
from fsage.studies.allocator.model import Assignment

FRESH = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
STILL_S = 1.0
LOOK_S = 0.001
MOST_CALLS = 200
"""Of those that filled the target, so many are kept: the slowest."""


def fallocate(assignment: Assignment) -> Iterator[Json]:
    """One call for all bytes of a new file."""
    descriptor = os.open(Path(assignment.folder) / "asked", FRESH, 0o600)
    call = bounded.timed(partial(os.posix_fallocate, descriptor, 0, assignment.request_bytes))
    os.close(descriptor)
    yield call


def fill(assignment: Assignment) -> Iterator[Json]:
    """Call after call until nothing is left: half as much where there is no room for so much."""
    place = Path(assignment.folder)
    size = assignment.request_bytes
    number = 0
    descriptor = os.open(place / "asked.0", FRESH, 0o600)
    offset = 0
    while size >= BLOCK_BYTES:
        call = bounded.timed(partial(os.posix_fallocate, descriptor, offset, size))
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

    refused = bounded.timed(both)["error"]
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
    call = bounded.timed(path.unlink)
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
    """The calls of a phase, how many they were, and the bytes that they gave."""
    work = partial(OPERATIONS[assignment.operation], assignment)
    calls = list(bounded.results(work, Path(assignment.folder), assignment.limit_s))
    given = sum(call.get("bytes", 0) for call in calls if not call.get("error"))
    kept = calls
    if len(calls) > MOST_CALLS:
        kept = [*sorted(calls[:-1], key=lambda call: -call["seconds"])[: MOST_CALLS - 1], calls[-1]]
    return {"count": len(calls), "bytes": given, "calls": kept}


def main(path: str) -> int:
    """Exit code 0 and the calls as JSON, or 1 and why not."""
    try:
        result = run(typed.read(Assignment, json.loads(Path(path).read_text(encoding="utf-8"))))
    except (Unacceptable, OSError) as why:
        print(in_words(why, path), file=sys.stderr)
        return 1
    if not result["count"]:
        print(f"{path}: the calls ended without a result", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
