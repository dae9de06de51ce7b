"""A free-space layout on an ext4 that is not mounted: blocks that are to be in use are taken in its bitmaps.

No file holds them, and e2fsck would free them: the claim and the state's notes say whose they are. So a layout of any
size is laid exactly, in seconds, and its files' maps take no block.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.host.stores.ext4 import BlockBitmap
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.evidence import extents
from fsage.model.evidence.extents import Extents
from fsage.model.structure import Notes

COPIED = ", copied from where it was kept"


class Taken:
    """The blocks of one replica that are in use."""

    def __init__(
        self,
        target: Target,
        digest: str | None,
        check_lease: Callable[[], None],
        copied: Extents,
        joined: Extents | None,
    ) -> None:
        """`copied`: the wanted free extents; with `joined` as many bytes in one run within these extents.

        `digest`: of the layout; its bitmaps are kept, and laying it again copies them. None: they are not.
        """
        self.target = target
        self.check_lease = check_lease
        self.name = name_of(digest, joined is not None) if digest else None
        self.wanted = copied
        self.held_by = "the block bitmap alone"
        if joined is not None:
            self.wanted = extents.joined(joined, extents.size(copied), extents.centre(copied))

    def lay(self) -> int:
        """Lay it out; the number of files, 0. Raises OSError, Failure."""
        self.check_lease()
        self.target.change_unmounted(self.name, self._take)
        return 0

    def _take(self, place: str) -> None:
        bitmap = BlockBitmap(place, write=True)
        try:
            bitmap.take(extents.without(list(bitmap.free()), self.wanted))
            bitmap.close()
        finally:
            bitmap.leave()


def name_of(digest: str, joined: bool) -> str:
    """What a layout is kept as."""
    return f"{digest[:40]}-{'joined' if joined else 'copied'}"


def note(target: Target, digest: str, joined: bool, notes: Notes) -> None:
    """Note with a layout that is kept what was compared, and how much the kernel counts as free."""
    counted_bytes = target.free(target.mounts[0]).bytes
    target.note_kept(name_of(digest, joined), {"notes": notes, "counted_bytes": counted_bytes})


def again(target: Target, digest: str, joined: bool) -> Notes | None:
    """Lay a layout that is kept, by a copy; what was noted when it was laid. None where it is not kept.

    Raises OSError, Failure.
    """
    name = name_of(digest, joined)
    noted = target.kept(name)
    if noted is None or not target.change_unmounted(name, lambda place: None):
        return None
    free_bytes = target.free(target.mounts[0]).bytes
    if free_bytes != noted["counted_bytes"]:
        target.note_kept(name, None)
        raise Failure(
            f"target {target.name}: the layout that was kept as {name} has {free_bytes} bytes free, and "
            f"{noted['counted_bytes']} when it was laid. It is kept no more: give the same command again"
        )
    notes: Notes = noted["notes"]
    return {**notes, "held_by": notes["held_by"] + COPIED}
