"""Laying out free space block by block: files take all that is free, and what is to be free is punched out of them.

What a file system holds back for itself (ext4: its reserved clusters; XFS: what each allocation group needs for its
trees) nobody is given, so it would stay free wherever the allocator left it. Hence rounds: some of what is to be free
is given back and all is filled once more, until what is held back lies where it is to be free. Punched in ascending
order, a file's map of extents fills its blocks: about 340 extents each on ext4.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fsage.agent.errors import Failure
from fsage.agent.evidence import extents, fiemap
from fsage.agent.evidence.extents import Extents, Head
from fsage.agent.evidence.freespace import Counting
from fsage.agent.stores import filesystems
from fsage.agent.structure import files
from fsage.agent.structure.room import Room
from fsage.agent.structure.step import Notes
from fsage.agent.system import caches
from fsage.agent.targets.target import Target

PARTS = 16
ROUNDS = ((1 << 16, 2), (1 << 14, 4), (1, 8), (1, 64))
"""For a round free extents of so many bytes and more are given back, so many times what is free in the wrong place."""
ENOUGH = 0.0002
"""No further round where less than this share of the free bytes is free in the wrong place."""
LEAST = 0.9
"""Less of the free bytes in their places is no replica."""
SHOWN = 20
BITMAP = 256
CHECK_EVERY = 256


def check(target: Target) -> None:
    """Raise Failure where free space cannot be laid out on a target."""
    if len(target.mounts) > 1 or not target.own_stores:
        raise Failure(
            f"target {target.name} has {len(target.mounts)} stores of kind {target.kind}: a layout is copied onto "
            "one file system of fsage's own (kind loop, stores: 1)"
        )
    made_of = filesystems.of(target.filesystem or "")
    if not made_of.frees_parts:
        raise Failure(
            f"target {target.name}: {made_of.title} frees an extent when all of it is gone, so a layout cannot be "
            "punched into it; declare a target of ext4 or XFS"
        )


def lay(
    target: Target,
    generation: int,
    name: str,
    layout: tuple[Head, Extents],
    joined: bool,
    check_lease: Callable[[], None],
) -> Notes:
    """Lay an empty target's free space as in `layout`, or as much in one run (`joined`); what it noted of that.

    Notes: `files` made, `original` and `found` in short, and their `agreement`. Raises Failure.
    """
    head, original = layout
    room, device_bytes = _free(target, head, name)
    copied = extents.common(original, room)
    if not copied:
        raise Failure(f"layout {name} has nothing free that could be free on target {target.name}")
    files.make_room(target.mounts, generation)
    try:
        laying = _Laying(target, generation, check_lease, copied, room if joined else None)
        made = laying.lay()
    except OSError as error:
        raise Failure(f"laying out {name} on target {target.name}: {error.strerror}") from error
    found, _ = _free(target, head, name)
    goal = laying.wanted if joined else original
    notes: Notes = {
        "files": made,
        "source": head.source,
        "filesystem": head.filesystem,
        "drawn": head.drawn,
        "original": _summary(original, head.device_bytes),
        "found": _summary(found, device_bytes),
        **agreement(goal, found, room),
    }
    if notes["agree_share"] < LEAST:
        raise Failure(
            f"layout {name} on target {target.name}: {100 * notes['agree_share']:.1f}% of the free bytes "
            f"lie where they should, and less than {100 * LEAST:.0f}% is no replica; a target with the original's "
            f"file system, {head.filesystem or 'which its text does not name'}, and mkfs options would have more"
        )
    return notes


def agreement(wanted: Extents, found: Extents, room: Extents) -> dict[str, Any]:
    """How much of what is free is where it should be.

    `agree_share`: bytes free in both over bytes free in either. `metadata_bytes` should be free and hold the target's
    own metadata, `taken_bytes` something else (maps of extents), `left_bytes` are free and should not be. `differ`:
    the largest such ranges.
    """
    lacking, left = extents.without(wanted, found), extents.without(found, wanted)
    taken = extents.common(lacking, room)
    agree = extents.size(wanted) - extents.size(lacking)
    either = extents.size(found) + extents.size(lacking)
    kinds = {"metadata": extents.without(lacking, room), "taken": taken, "left": left}
    ranges = [(end - start, start, kind) for kind, some in kinds.items() for start, end in some]
    return {
        "agree_bytes": agree,
        "agree_share": agree / either if either else 1.0,
        **{f"{kind}_bytes": extents.size(some) for kind, some in kinds.items()},
        "differ": [
            {"start": start, "bytes": length, "why": kind} for length, start, kind in sorted(ranges)[-SHOWN:][::-1]
        ],
    }


def _summary(free: Extents, device_bytes: int) -> dict[str, Any]:
    return {
        "device_bytes": device_bytes,
        "free_bytes": extents.size(free),
        "free_extents": len(free),
        "free_percent": extents.shares(free, device_bytes, BITMAP),
    }


def now(target: Target) -> tuple[Head, Extents]:
    """What is free on a target as it is mounted for each cell, with a head for it. Raises Failure."""
    target.remount()
    found, device_bytes, block_bytes = _read(target)
    return Head(device_bytes, block_bytes, 0, target.filesystem, f"target {target.name} itself"), found


def _free(target: Target, head: Head, layout: str) -> tuple[Extents, int]:
    """What is free on the target now, and the size of its device. Raises Failure where the layout does not fit it."""
    found, device_bytes, block_bytes = _read(target)
    if head.block_bytes != block_bytes:
        raise Failure(
            f"layout {layout} has blocks of {head.block_bytes} bytes and target {target.name} of {block_bytes}: it "
            "cannot be copied block by block"
        )
    if head.device_bytes > device_bytes:
        raise Failure(
            f"layout {layout} is of {head.device_bytes} bytes, and target {target.name} has {device_bytes}: it is "
            "larger than the target"
        )
    return found, device_bytes


def _read(target: Target) -> tuple[Extents, int, int]:
    """What is free now, bytes of the device and of a block. Raises Failure."""
    caches.flush(target.mounts[0])
    target.settle()
    found: Extents = []
    store = target.free_space(0, Counting(keep=lambda start, end: found.append((start, end))))
    if why := store.absent.get("free_extents"):
        raise Failure(f"target {target.name}: where it is free is not known: {why}")
    return found, store.found["device_bytes"], store.found["block_bytes"]


class _Laying:
    """The files of one replica, and what of them is punched out."""

    def __init__(
        self, target: Target, generation: int, check_lease: Callable[[], None], copied: Extents, joined: Extents | None
    ) -> None:
        """`copied` is to be free, or, of the bytes in `joined`, as many in one run."""
        self.target, self.generation, self.check_lease = target, generation, check_lease
        self.total = None if joined is None else extents.size(copied)
        self.centre = extents.centre(copied)
        self.wanted = copied if joined is None else joined
        self.room = Room(target)
        self.made = 0

    def lay(self) -> int:
        """Do it; how many files there are then. Raises OSError, Failure."""
        self.target.remount()  # ext4 sets blocks aside for small files, which nobody else is given until then
        with filesystems.one_cpu():
            self._fill()
            if self.total is not None:
                self._join(self.total)
            for smallest, times in ROUNDS:
                left = self._now()
                wrong = extents.without(left, self.wanted)
                if extents.size(wrong) <= ENOUGH * extents.size(self.wanted):
                    break
                self._punch(_smallest(self.wanted, smallest, times, left, wrong))
                self._fill()
            self._punch(self.wanted)
        self.target.remount()
        return self.made

    def _join(self, total: int) -> None:
        """Want `total` bytes in one run, but for what is held back: that stays where it was left."""
        left = self._now()
        room = extents.without(self.wanted, left)
        run = extents.joined(room, max(0, total - extents.size(left)), self.centre)
        self.wanted = sorted([*left, *run])

    def _fill(self) -> None:
        """Give all that is free to one file more."""
        self.check_lease()
        self.room.rest(files.path_of(self.target.mounts, self.generation, self.made))
        self.made += 1
        caches.flush(self.target.mounts[0])

    def _now(self) -> Extents:
        found: Extents = []
        self.target.free_space(0, Counting(keep=lambda start, end: found.append((start, end))))
        return found

    def _punch(self, free: Extents) -> None:
        """Make these bytes of the device free that files hold, in ascending order in each file."""
        for index in range(self.made):
            path = files.path_of(self.target.mounts, self.generation, index)
            pieces = sorted(fiemap.extents(path), key=lambda piece: piece.physical)
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
            try:
                for number, (offset, length) in enumerate(sorted(within(pieces, free))):
                    if number % CHECK_EVERY == 0:
                        self.check_lease()
                    files.allocate(descriptor, files.KEEP_SIZE | files.PUNCH_HOLE, offset, length)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        caches.flush(self.target.mounts[0])
        self.target.settle()


def within(pieces: list[fiemap.Extent], free: Extents) -> list[tuple[int, int]]:
    """Offset and length in a file of what of its pieces, by their places on the device, is to be free."""
    found, at = [], 0
    for piece in pieces:
        begin, stop = piece.physical, piece.physical + piece.length
        while at < len(free) and free[at][1] <= begin:
            at += 1
        here = at
        while here < len(free) and free[here][0] < stop:
            start, end = max(free[here][0], begin), min(free[here][1], stop)
            found.append((piece.logical + start - begin, end - start))
            here += 1
    return found


def _smallest(free: Extents, least: int, times: int, left: Extents, wrong: Extents) -> Extents:
    """The smallest of at least `least` bytes in each of PARTS parts of the device: `times` what is left there.

    An allocator that is given all looks for large extents first: what it leaves is then among these.
    """
    span = free[-1][1] // PARTS + 1
    parts: list[Extents] = [[] for _ in range(PARTS)]
    wanted = [times * extents.size(left) // PARTS] * PARTS
    for start, end in wrong:
        wanted[min(start // span, PARTS - 1)] += times * (end - start)
    for one in free:
        if one[1] - one[0] >= least:
            parts[one[0] // span].append(one)
    found: Extents = []
    for part, need in zip(parts, wanted):  # noqa: B905 (hosts: Python 3.9)
        for one in sorted(part, key=lambda it: it[1] - it[0]):
            if need <= 0:
                break
            found.append(one)
            need -= one[1] - one[0]
    return sorted(found)
