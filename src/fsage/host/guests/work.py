"""What a guest does: pieces of work on its own disk, each a JSON object that says what to `do`, and its `filesystem`.

- `try`: whether a file system can be made; `build`: one in a state;
- `verbs`: what the host side answers;
- `count`: where new files lie in the states of a layout; `write`: where one does.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

from fsage.base import Failure, Json, Refusal, in_words
from fsage.host import filesystems
from fsage.host.__main__ import perform
from fsage.host.device import models
from fsage.host.guests.target import UUID, GuestTarget
from fsage.host.kinds.loop import HASH_SEED, Loop
from fsage.host.structure import files, verify, work
from fsage.host.system import kernel, library, mounting, places, space
from fsage.host.system.files import read_json, write_json
from fsage.host.verbs import checks, count
from fsage.layouts import fiemap
from fsage.model import counting, declaration
from fsage.model.claim import Claim, ClaimedStore
from fsage.model.counting import Job
from fsage.model.device import RANDOM_FROM_BYTES
from fsage.model.structure import ALONE, BLOCK_BYTES, Method, Notes, Step
from fsage.model.target import Spec

POWER_OFF = 0x4321FEDC  # reboot(2)
COLLAPSE = 8  # fallocate(2)
TRIAL_BYTES = 4 << 20


class Guest:
    """This process, the first one of a guest. `point`: where file systems come to be mounted."""

    def __init__(self, kind: type[GuestTarget], point: Path) -> None:
        self.kind = kind
        self.point = point

    def begin(self) -> None:
        """Prepare it: nothing is mounted yet."""
        for kind, place in (("proc", "/proc"), ("sysfs", "/sys")):
            mounting.mount_call(kind, place, kind, 0, "")
        self.point.mkdir()
        files.page_of_content = bytes

    def see(self, folder: str, point: Path) -> None:
        """Let it see a folder of the machine outside at a place of its own. Raises OSError."""
        point.mkdir()
        mounting.mount_call("none", str(point), "hostfs", 0, folder)

    def do(self, job: Json, device: str) -> Json:
        """Do a piece of work on a disk; its answer, or the `error`."""
        try:
            answer = WORK[job["do"]](job, device, self.point, self.kind)
            mounting.unmount(self.point)
            return answer
        except (Failure, Refusal, OSError, ValueError) as why:
            with contextlib.suppress(OSError):  # nothing is mounted
                mounting.let_go(self.point)
            return {"error": in_words(why)}

    def end(self) -> None:
        """Halt the guest."""
        os.sync()
        kernel.library.reboot(POWER_OFF)


def tried(job: Json, device: str, point: Path, kind: type[GuestTarget]) -> Json:
    """Whether a file system can be made and mounted, and gives back what was written."""
    name = job["filesystem"]
    if not filesystems.is_known_here(name):
        return {"why_not": "the kernel does not know it"}
    filesystems.make(name, device, str(uuid.uuid4()), HASH_SEED, sparse=True)
    content = os.urandom(TRIAL_BYTES)
    filesystems.mount(name, device, point)
    with open(point / "file", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    filesystems.remount(name, device, point)
    good = (point / "file").read_bytes() == content
    return {"why_not": None if good else "it gave back other bytes than were written"}


def built(job: Json, device: str, point: Path, kind: type[GuestTarget]) -> Json:
    """A file system in the state that steps lead to: its capacity, and a digest of where its files lie."""
    name = job["filesystem"]
    filesystems.make(name, device, UUID, HASH_SEED, sparse=True, geometry=job["geometry"])
    filesystems.mount(name, device, point, filesystems.named(name).sparse_option, warm=True)
    target = _target(name, device, point, kind)
    target.inputs = job["inputs"]
    done: list[Step] = []
    notes: dict[str, Notes] = {}
    for step in (Step.from_json(value, "steps") for value in job["steps"]):
        notes[step.kind] = work(step, target, done, ALONE, lambda: None).notes
        done.append(step)
    if job.get("file_extents"):
        try:
            _in_pieces(point, job["file_extents"], filesystems.named(name).places_when_written)
        except OSError as why:
            raise Failure(f"a file of {job['file_extents']} extents was wanted: {why.strerror}") from why
    os.sync()
    target.settle()
    verify([point], done, target.capacity_bytes, notes)
    return {
        "capacity_bytes": target.capacity_bytes,
        "free_bytes": space.unused_bytes(point),
        "digest": _digest(point),
        "agree_share": notes.get("replica", {}).get("agree_share"),
    }


def _target(name: str, device: str, point: Path, kind: type[GuestTarget]) -> Loop:
    """An empty file system as the target that steps are done on: as large as it is free.

    What is in use is in files: fsck finds blocks wrong that are only marked, as in a sparse target.
    """
    declared = {"name": "guest", "kind": kind.kind, "filesystem": name, "home": str(point.parent)}
    spec: Spec = {**declaration.complete(declared), "sparse": False}
    store: ClaimedStore = {"mount": str(point), "filesystem": name, "uuids": [UUID]}
    claim = {"stores": [store], "filesystem_state_known": True, "capacity_bytes": space.unused_bytes(point)}
    target = Loop(spec, cast(Claim, claim))
    target.devices = [device]
    return target


def _in_pieces(point: Path, extents: int, by_writing: bool) -> None:
    """Add a file `pieces` of so many extents of one block each. Raises Failure.

    Every second block of it is cut out, where that can be done (ext4, XFS). Else it grows in turns with another file,
    and so it does where blocks have their places when they are written.
    """
    with open(point / "pieces", "w+b") as pieces, open(point / "between", "wb") as between:
        own = pieces.fileno()
        try:
            if by_writing:
                raise OSError(errno.EOPNOTSUPP, "blocks that are allocated lie nowhere")
            os.posix_fallocate(own, 0, (2 * extents - 1) * BLOCK_BYTES)
            os.fsync(own)
            for number in reversed(range(1, extents)):
                kernel.allocate(own, COLLAPSE, (2 * number - 1) * BLOCK_BYTES, BLOCK_BYTES)
        except OSError as why:
            if why.errno != errno.EOPNOTSUPP:
                raise
            pieces.truncate(0)
            for number in range(extents):
                for file in (pieces, between):
                    os.pwrite(file.fileno(), os.urandom(BLOCK_BYTES), number * BLOCK_BYTES)
                    os.fsync(file.fileno())
    (point / "between").unlink()
    made = len(fiemap.extents(point / "pieces"))
    if made != extents:
        raise Failure(f"a file of {extents} extents was wanted, and it has {made}")


def _digest(point: Path) -> str:
    """A digest of every file's name, size and places; times and random numbers in inodes are not the layout's."""
    lines = []
    for path in sorted(files_below(point)):
        lines.append(f"{path.relative_to(point)} {path.stat().st_size} {fiemap.extents(path)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def files_below(point: Path) -> Iterator[Path]:
    """Regular files."""
    for folder, _, names in os.walk(point):
        yield from (Path(folder) / name for name in names)


def answered(job: Json, device: str, point: Path, kind: type[GuestTarget]) -> Json:
    """What the host side answers to verbs here, in order, and what it has observed."""
    socket.sethostname(job["host"])  # a claim counts on its own host alone
    library.given_digest = job["code"]
    kind.device = device
    given = job["given"]
    spec = declaration.complete(given["target"])
    home = declaration.home_of(spec)
    places.make(home)
    if job["claim"]:
        write_json(home / "claim.json", job["claim"])
    try:
        for verb in job["verbs"]:
            if verb == "build":
                answer = _built(given)
            else:
                answer = _perform(verb, given)
        kept = sorted((home / "outbox").rglob("*.json"))
        return {"answer": answer, "observations": list(map(read_json, kept))}
    finally:
        mounting.unmount(Path(spec["mount_dir"]) / spec["name"] / "0")
        models.end_in_guest()
        shutil.rmtree(home)  # the next job begins as this one did


def _perform(verb: str, given: Json) -> Json:
    return perform(verb, given, checks.checked(given["request"], given.get("hosts")), False)


def _built(given: Json) -> Json:
    """Do every step that is due; the last answer."""
    done = _perform("apply_step", given)
    while done["changed"]:
        done = _perform("apply_step", given)
    return done


def counted(job: Json, device: str, point: Path, kind: type[GuestTarget]) -> Json:
    """Where new files come to lie in states of one layout."""
    kind.device = device
    return {"rows": list(count.rows(cast(Job, job["job"]), device, point.parent / "fsage", UUID))}


def written(job: Json, device: str, point: Path, kind: type[GuestTarget]) -> Json:
    """Where one new file comes to lie on a state's file system."""
    name = job["filesystem"]
    options = ",".join(filter(None, [filesystems.named(name).sparse_option, job["mount"]]))
    filesystems.mount(name, device, point, options, warm=job["warm"])
    path = point / "new"
    method: Method = "write" if job["direct"] else "buffered"
    files.in_turns([path], [job["bytes"]], job["request_bytes"], method)
    runs = counting.joined([list(extent[:3]) for extent in fiemap.extents(path)])
    return {"extents": len(runs), "jumps": len(counting.jumps(runs, RANDOM_FROM_BYTES))}


WORK: dict[str, Callable[[Json, str, Path, type[GuestTarget]], Json]] = {
    "try": tried,
    "build": built,
    "verbs": answered,
    "count": counted,
    "write": written,
}
