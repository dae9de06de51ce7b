"""Free space is laid out block by block like another file system's, on the one store of a target, and then compared.

Where a punched hole frees its blocks, files fill the target, and free space is punched out (Punched). A file system
reserves some blocks for itself (ext4: its reserved clusters; XFS: space for the trees of each allocation group). No
file gets them, so they would stay free wherever the allocator left them. Several rounds solve that: some of the wanted
space is freed, and all is filled again, until the reserved blocks lie where free space is wanted. Holes are punched in
ascending order: then a file's map of extents fills its blocks, about 340 extents each on ext4.

On an ext4 that is not mounted, blocks that are to be in use are taken in its bitmaps (`_take`). No file holds them, and
e2fsck would free them: the claim and the state's notes say whose they are. So a layout of any size is laid exactly, in
seconds, and its files' maps take no block.

Where only whole extents are freed, see fsage.studies.replica.host.whole_extents.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from fsage.api.host import Quota, Target, caches, kernel, one_cpu
from fsage.api.model import Failure, Json, path_of
from fsage.layouts import extents, fiemap
from fsage.layouts.extents import Extents, Head
from fsage.layouts.fragmentation import Extent
from fsage.layouts.freespace import Counting

from .whole_extents import WholeExtents

PARTS = 16
ROUNDS = ((1 << 16, 2), (1 << 14, 4), (1, 8), (1, 64))
"""Each round: the smallest extent that is freed, and how many times the wrongly free bytes are freed."""
ENOUGH = 0.0002
"""The rounds end where less than this share of the free bytes is in the wrong place."""
CHECK_EVERY = 256


class Punched:
    """The files of one replica, and the holes that are punched into them."""

    def __init__(
        self,
        target: Target,
        generation: int,
        check_lease: Callable[[], None],
        wanted: Extents,
        room: Extents | None,
    ) -> None:
        """`wanted`: the free extents; with `room` they are one run, which may lie elsewhere in these extents."""
        self.target = target
        self.generation = generation
        self.check_lease = check_lease
        self.wanted = wanted
        self.room = room
        self.quota = Quota(target)
        self.made = 0

    def lay(self) -> int:
        """Lay it out; the number of files. Raises OSError, Failure."""
        self.target.remount()  # ext4 reserves blocks for small files, and only a remount releases them
        with one_cpu():
            self._fill()
            if self.room is not None:
                self._join(self.room)
            for smallest, times in ROUNDS:
                left = read(self.target)[1]
                wrong = extents.without(left, self.wanted)
                if extents.size(wrong) <= ENOUGH * extents.size(self.wanted):
                    break
                self._punch(_smallest(self.wanted, smallest, times, left, wrong))
                self._fill()
            self._punch(self.wanted)
        self.target.remount()
        return self.made

    def _join(self, room: Extents) -> None:
        """Want the run less the reserved blocks, which stay where they are."""
        left = read(self.target)[1]
        total = max(0, extents.size(self.wanted) - extents.size(left))
        run = extents.joined(extents.without(room, left), total, extents.centre(self.wanted))
        self.wanted = sorted([*left, *run])

    def _fill(self) -> None:
        """Give all free space to one more file."""
        self.check_lease()
        self.quota.rest(path_of(self.target.mounts, self.generation, self.made))
        self.made += 1

    def _punch(self, free: Extents) -> None:
        """Free these bytes of the device, in ascending order within each file."""
        for index in range(self.made):
            path = path_of(self.target.mounts, self.generation, index)
            pieces = sorted(fiemap.extents(path), key=lambda piece: piece.physical)
            with kernel.opened(path, os.O_WRONLY | os.O_NOFOLLOW) as descriptor:
                for number, (offset, length) in enumerate(sorted(within(pieces, free))):
                    if number % CHECK_EVERY == 0:
                        self.check_lease()
                    self.quota.punch(descriptor, offset, length)
                os.fsync(descriptor)
        flush(self.target)


def within(pieces: list[Extent], free: Extents) -> list[tuple[int, int]]:
    """Offset and length, within a file, of those parts of its extents that lie in `free` on the device."""
    ranges = []
    at = 0
    for piece in pieces:
        begin = piece.physical
        stop = piece.physical + piece.length
        while at < len(free) and free[at][1] <= begin:
            at += 1
        index = at
        while index < len(free) and free[index][0] < stop:
            start = max(free[index][0], begin)
            end = min(free[index][1], stop)
            ranges.append((piece.logical + start - begin, end - start))
            index += 1
    return ranges


def _smallest(free: Extents, least: int, times: int, left: Extents, wrong: Extents) -> Extents:
    """The smallest wanted extents of at least `least` bytes, in each of PARTS parts of the device.

    Their bytes are `times` those that are left free in the part. An allocator prefers large extents, so what it leaves
    free in the next round is among these.
    """
    span = free[-1][1] // PARTS + 1
    parts: list[Extents] = [[] for _ in range(PARTS)]
    wanted = [times * extents.size(left) // PARTS] * PARTS
    for start, end in wrong:
        wanted[min(start // span, PARTS - 1)] += times * (end - start)
    for extent in free:
        if extent[1] - extent[0] >= least:
            parts[extent[0] // span].append(extent)
    chosen: Extents = []
    for part, need in zip(parts, wanted):
        for extent in sorted(part, key=lambda extent: extent[1] - extent[0]):
            if need <= 0:
                break
            chosen.append(extent)
            need -= extent[1] - extent[0]
    return sorted(chosen)


COPIED = ", copied from where it was kept"


def taken_again(target: Target, kept_as: str) -> Json | None:
    """Lay a layout that is kept, by a copy; what was noted when it was laid. None where it is not kept.

    Raises OSError, Failure.
    """
    noted = target.kept(kept_as)
    if noted is None or not target.change_unmounted(kept_as, lambda place: None):
        return None
    free_bytes = target.free(target.mounts[0]).bytes
    if free_bytes != noted["counted_bytes"]:
        target.note_kept(kept_as, None)
        raise Failure(
            f"target {target.name}: the layout that was kept as {kept_as} has {free_bytes} bytes free, and "
            f"{noted['counted_bytes']} when it was laid. It is kept no more: give the same command again"
        )
    notes: Json = noted["notes"]
    return {**notes, "held_by": notes["held_by"] + COPIED}


def check(target: Target) -> None:
    """Raise Failure where free space cannot be laid out on a target."""
    why = target.layout_unavailable_because
    if why:
        raise Failure(why)


def read(target: Target) -> tuple[Head, Extents]:
    """The device and its free extents, after a flush. Raises Failure."""
    check(target)
    flush(target)
    free: Extents = []
    store = target.laid_space(Counting(keep=lambda *ends: free.extend(zip(*ends))))
    why = store.absent.get("free_extents")
    if why:
        raise Failure(f"target {target.name}: its free extents cannot be read: {why}")
    sizes = store.found["device_bytes"], store.found["block_bytes"]
    return Head(*sizes, 0, store.filesystem, f"target {target.name} itself"), free


def flush(target: Target) -> None:
    """Flush all writes and deletions to the device. Raises OSError, Failure."""
    for mount in target.mounts:
        caches.flush(mount)
    target.settle()


LEAST = 0.9
"""A replica has at least this share of the free bytes in their places."""
SHOWN = 20
BITMAP = 256


def lay(
    target: Target,
    generation: int,
    name: str,
    layout: tuple[Head, Extents],
    joined: bool,
    check_lease: Callable[[], None],
    kept_as: str | None = None,
) -> Json:
    """Lay out an empty target's free space as in `layout`, or as much in one run (`joined`); notes of that.

    `kept_as`: a name by which block bitmaps are kept, so that laying them again copies them (`taken_again`). Notes:
    `files` made, `original` and `found` in short, and their `agreement`. Raises Failure.
    """
    head, original = layout
    usable, device_bytes = _fitting(target, head, name)
    copied = extents.common(original, usable)
    if not copied:
        raise Failure(f"layout {name} has no free block where target {target.name} can have one")
    wanted = copied
    if joined:
        wanted = extents.joined(usable, extents.size(copied), extents.centre(copied))
    made = 0
    try:
        if target.takes_blocks:
            check_lease()
            target.change_unmounted(kept_as, lambda place: _take(target, place, wanted))
        else:
            Quota(target).make_room(generation)
            files: Punched | WholeExtents
            if target.frees_parts:
                files = Punched(target, generation, check_lease, wanted, usable if joined else None)
            else:
                files = WholeExtents(target, generation, check_lease, wanted)
            made = files.lay()
            wanted = files.wanted
    except OSError as error:
        raise Failure(f"laying out {name} on target {target.name}: {error.strerror}") from error
    free, _ = _fitting(target, head, name)
    notes: Json = {
        "files": made,
        "held_by": "files" if made else "the block bitmap alone",
        "source": head.source,
        "filesystem": head.filesystem,
        "drawn": head.drawn,
        "original": _summary(original, head.device_bytes),
        "found": _summary(free, device_bytes),
        **agreement(wanted if joined else original, free, usable),
    }
    if notes["agree_share"] < LEAST:
        raise Failure(
            f"layout {name} on target {target.name}: {100 * notes['agree_share']:.1f}% of the free bytes lie where "
            f"they should, and a replica needs {100 * LEAST:.0f}%. Use a target with the original's file system "
            f"({head.filesystem or 'which its text does not name'}) and mkfs options"
        )
    if kept_as:
        target.note_kept(kept_as, {"notes": notes, "counted_bytes": target.free(target.mounts[0]).bytes})
    return notes


def _take(target: Target, place: str, free: Extents) -> None:
    """Take all blocks but the free ones, in the bitmaps of a file system that is not mounted."""
    assert target.system
    target.system.take_free(place, lambda before: extents.without(before, free))


def agreement(wanted: Extents, free: Extents, usable: Extents) -> dict[str, object]:
    """How far the free space agrees with the wanted one.

    `agree_share`: bytes free in both over bytes free in either. `metadata_bytes` should be free and hold the target's
    own metadata, `taken_bytes` something else (maps of extents), `left_bytes` are free and should not be. `differ`:
    the largest such ranges.
    """
    lacking = extents.without(wanted, free)
    left = extents.without(free, wanted)
    taken = extents.common(lacking, usable)
    agree = extents.size(wanted) - extents.size(lacking)
    either = extents.size(free) + extents.size(lacking)
    kinds = {"metadata": extents.without(lacking, usable), "taken": taken, "left": left}
    ranges = [(end - start, start, kind) for kind, some in kinds.items() for start, end in some]
    return {
        "agree_bytes": agree,
        "agree_share": agree / either if either else 1.0,
        **{f"{kind}_bytes": extents.size(some) for kind, some in kinds.items()},
        "differ": [
            {"start": start, "bytes": length, "why": kind} for length, start, kind in sorted(ranges)[-SHOWN:][::-1]
        ],
    }


def _summary(free: Extents, device_bytes: int) -> dict[str, object]:
    return {
        "device_bytes": device_bytes,
        "free_bytes": extents.size(free),
        "free_extents": len(free),
        "free_percent": extents.shares(free, device_bytes, BITMAP),
    }


def _fitting(target: Target, head: Head, layout: str) -> tuple[Extents, int]:
    """The target's free extents and the size of its device. Raises Failure where the layout does not fit it."""
    head_now, free = read(target)
    if head.block_bytes != head_now.block_bytes:
        raise Failure(
            f"layout {layout} has blocks of {head.block_bytes} bytes, and target {target.name} of "
            f"{head_now.block_bytes}: it cannot be copied block by block"
        )
    if head.device_bytes > head_now.device_bytes:
        raise Failure(
            f"layout {layout} is of {head.device_bytes} bytes, and target {target.name} has {head_now.device_bytes}: "
            "it is larger than the target"
        )
    return free, head_now.device_bytes
