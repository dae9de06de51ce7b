"""States in memory, and where a new file's bytes come to lie in each: `python3 -m fsage.host.verbs.count`.

A job (fsage.model.counting.Job) in on stdin, a line of JSON out for each file. The file system lies in a sparse image
on a tmpfs, on a loop device that the kernel detaches with its last user. It is mounted in a mount namespace of this
process alone. So whatever ends the process leaves nothing behind. State and file are made as on a claimed target.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import fsage
from fsage.base import Failure, Json, Refusal, in_words
from fsage.base.shell import run
from fsage.host.device import capabilities, loops
from fsage.host.kinds.loop import HASH_SEED, Loop
from fsage.host.states import begin_empty, empty, rest_of, with_step
from fsage.host.states.inspection import digest, remove_measured, settle
from fsage.host.structure import files, verify, work
from fsage.host.system import kernel, mounting, namespace, places, space
from fsage.host.targets import kinds
from fsage.layouts import fiemap
from fsage.layouts.fragmentation import Extent
from fsage.model import structure
from fsage.model.claim import Claim, ClaimedStore
from fsage.model.counting import Job, Wanted
from fsage.model.declaration import complete
from fsage.model.structure import ALONE, Method, Notes, Step

PLACE = Path("/run/fsage/count")
"""Where each process has a tmpfs of its own, which no other process sees."""
COUNTING = "counting"
OF_THE_PAGE_CACHE = "buddies_"
"""Counters of what is loaded again where the page cache was emptied, which every process of the machine may do."""


def count(job: Job) -> Iterator[Json]:
    """Have a process of its own do a job; its lines as they come. Raises Refusal, Failure with what it said."""
    elsewhere = kinds.named(job["spec"]["kind"]).counted(job)
    if elsewhere is not None:
        yield from elsewhere
        return
    why = capabilities.why_no_loops()
    if why:
        raise Refusal(f"counting needs a file system of its own: {why}")
    package = str(Path(fsage.__file__).parents[1])
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    with subprocess.Popen(
        [sys.executable, *safe, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": package},
        cwd="/",
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(json.dumps(job))
        process.stdin.close()
        for line in process.stdout:
            yield json.loads(line)
        wrong = process.stderr.read().strip()
    if process.returncode:
        raise Failure(
            f"counting {job['populations'][0][0][0]}: {wrong.splitlines()[-1] if wrong else 'its process was killed'}"
        )


def main() -> None:
    """Do the job that stands on stdin."""
    kernel.library.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    job: Job = json.load(sys.stdin)
    os.sched_setaffinity(0, {job["cpu"]})  # what is laid by one thread has a processor of its own
    places.make(PLACE)
    namespace.unshare(namespace.MS_SLAVE)
    mounting.mount_call("fsage", str(PLACE), "tmpfs", mounting.MS_NOSUID | mounting.MS_NODEV, "mode=700,size=100%")
    try:
        with open(PLACE / "image", "w+b") as image:
            os.ftruncate(image.fileno(), job["device_bytes"])
            device, kept = loops.attach_briefly(image.fileno(), image.name)
            for row in rows(job, device, PLACE, str(uuid.uuid4())):
                print(json.dumps(row), flush=True)
            os.close(kept)
    except (Refusal, Failure, OSError) as why:
        sys.exit(in_words(why))


def rows(job: Job, device: str, place: Path, own: str) -> Iterator[Json]:
    """Do a job on an empty device, whose file system has the UUID `own` and is mounted below `place`.

    Raises Refusal, Failure, OSError.
    """
    (loops.queue_of(device) / "rotational").write_text(str(job["rotational"]))
    target = _made(job, device, place, own)
    for number, states in enumerate(job["populations"]):
        if number:
            empty(target, COUNTING)
        yield from _of_population(job, target, states)
    mounting.unmount(target.mounts[0])


def _of_population(job: Job, target: Loop, states: Sequence[tuple[str, list[Json]]]) -> Iterator[Json]:
    """Count in states that are reached from an empty target, each from the one before where that can be."""
    done: list[Step] = []
    notes: dict[str, Notes] = {}
    for name, given in states:
        began = time.monotonic()
        steps = structure.read_all(given)
        rest = rest_of(done, steps)
        if rest is None:
            empty(target, COUNTING)
            done = []
            rest = steps
        for step in rest:
            notes[step.kind] = work(step, target, done, ALONE, lambda: None).notes
            done = with_step(done, step)
            settle(target)
        verify(target.mounts, done, target.capacity_bytes, notes)
        seen = {"state": name, **_of_state(target)}
        for wanted in job["wanted"]:
            for row in _files(target, wanted, job["places"]):
                yield {**seen, **row, "seconds": round(time.monotonic() - began, 3)}
                began = time.monotonic()


def _made(job: Job, device: str, place: Path, own: str) -> Loop:
    """An empty target on the device, like one that was claimed."""
    spec = complete({**job["spec"], "home": str(place / "home"), "mount_dir": str(place / "mnt")})
    store: ClaimedStore = {
        "mount": str(place / "mnt" / spec["name"] / "0"),
        "filesystem": spec["filesystem"],
        "uuids": [own],
        "hash_seed": HASH_SEED,
    }
    about: Json = {"id": str(uuid.uuid4()), "stores": [store], "filesystem_state_known": True}
    target = cast(type[Loop], kinds.named(spec["kind"]))(spec, cast(Claim, about))
    target.devices = [device]
    target.inputs = dict(job["inputs"])
    target.make()
    target.claim["capacity_bytes"] = job["capacity_bytes"] or space.unused_bytes(target.mounts[0])
    begin_empty(target, COUNTING)
    return target


def _of_state(target: Loop) -> Json:
    return {
        "layout_digest": digest(target.mounts)["hash"],
        "capacity_bytes": target.capacity_bytes,
        "free_bytes": space.unused_bytes(target.mounts[0]),
        "mount_options": target.mount_options()[0],
        "kernel": os.uname().release,
        "made_by": _version(target.made_of.programs[0]),
        **target.disks()[0],
    }


@cache
def _version(program: str) -> str:
    version = run([program, "-V"])
    return (version.stdout or version.stderr).splitlines()[0].strip()


def _files(target: Loop, wanted: Wanted, at_places: int) -> Iterator[Json]:
    """Write files one after the other, each after a mount, and leave them until all are there; then remove them."""
    [mount] = target.mounts
    pieces: list[Extent] = []
    for place in range(1, at_places + 1):
        target.remount()
        before = _allocator(target)
        path = mount / "measured" / f"place_{place}"
        method: Method = "write" if wanted["direct"] else "buffered"
        extents: list[list[int]] = []
        why = None
        try:
            files.in_turns([path], [wanted["file_bytes"]], wanted["transfer_bytes"], method)
            written = fiemap.extents(path)
            pieces += written
            extents = [list(extent[:3]) for extent in target.made_of.on_device(path, written)]
        except OSError as error:
            why = f"{wanted['file_bytes']} bytes: {error.strerror}"
        after = _allocator(target)
        counts = None if before is None or after is None else _changed(before, after)
        yield {**wanted, "place": place, "extents": extents, "allocator": counts, "why": why}
    remove_measured(target)
    target.give_back_below({mount: [(piece.physical, piece.physical + piece.length) for piece in pieces]})


def _changed(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    changes = {name: value - before.get(name, 0) for name, value in after.items()}
    return {name: change for name, change in changes.items() if change and not name.startswith(OF_THE_PAGE_CACHE)}


def _allocator(target: Loop) -> dict[str, int] | None:
    """The kernel's counters of the allocator; None: it has none, or they cannot be read."""
    try:
        return target.made_of.allocator_counts(target.devices[0])
    except (Failure, OSError, ValueError):
        return None


if __name__ == "__main__":
    main()
