"""A free-space layout on an ext4 that is not mounted: blocks that are to be in use are taken in its bitmaps.

No file holds them, and e2fsck would free them: the claim and the state's notes say whose they are. So a layout of any
size is laid exactly, in seconds, and its files' maps take no block.
"""

from __future__ import annotations

from collections.abc import Callable

from fsage.host.evidence.ext2fs import BlockBitmap
from fsage.host.targets.target import Target
from fsage.model.evidence import extents
from fsage.model.evidence.extents import Extents


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
        self.target, self.check_lease, self.name = target, check_lease, None
        self.wanted, self.held_by = copied, "the block bitmap alone"
        if joined is not None:
            self.wanted = extents.joined(joined, extents.size(copied), extents.centre(copied))
        if digest:
            self.name = f"{digest[:40]}-{'copied' if joined is None else 'joined'}"

    def lay(self) -> int:
        """Lay it out; the number of files, 0. Raises OSError, Failure."""
        self.check_lease()
        if self.target.change_unmounted(self.name, self._take):
            self.held_by += ", copied from where it was kept"
        return 0

    def _take(self, place: str) -> None:
        bitmap = BlockBitmap(place, write=True)
        try:
            bitmap.take(extents.without(list(bitmap.free()), self.wanted))
            bitmap.close()
        finally:
            bitmap.leave()
