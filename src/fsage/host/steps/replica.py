"""Step `replica`: the free space becomes that of another file system, block by block, by a list of its free extents.

The original's metadata lie where its own mkfs put them. Where the target's lie and the original is free, they differ;
that, and the blocks of the maps, are noted.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fsage.host.evidence import extents
from fsage.host.evidence.extents import Extents, Head
from fsage.host.evidence.store import NotThisText
from fsage.host.structure import files, ground, laying
from fsage.host.structure.step import Achieved, Notes, Shard, Step, Work
from fsage.model.errors import Failure

if TYPE_CHECKING:
    from fsage.host.targets.target import Target

MOST_BYTES = 1 << 30
"""Of a list of free extents."""


@dataclass(frozen=True)
class Replica(Step):
    """Lay the free space as that of `layout` lies, or as much of it in one run (`joined`).

    `draw` and `seed`: which sample of windows of `window_groups` groups, where the original is larger than the target.
    `input`: the digest of the list of free extents, under which the request has it.
    """

    layout: str
    joined: bool
    draw: int
    window_groups: int
    seed: int | None
    input: str | None = None

    def describe(self) -> str:
        """The step in words."""
        return f"lay free space as in {self.layout}" + (", in one run" if self.joined else "")

    def given(self, target: Target) -> tuple[Head, Extents]:
        """The list of free extents, as the request has it. Raises Failure."""
        try:
            content = zlib.decompressobj()
            text = content.decompress(base64.b64decode(target.inputs[self.input or ""], validate=True), MOST_BYTES)
            if not content.eof or hashlib.sha256(text).hexdigest() != self.input:
                raise NotThisText("it is not the one that was named, or too long")
            head, found = extents.read(text.splitlines(keepends=True))
            return head, list(found)
        except KeyError:
            raise Failure(
                f"the request is without the layout {self.layout}; `fsage request STUDY STATE` makes a whole one"
            ) from None
        except (NotThisText, binascii.Error, zlib.error) as error:
            raise Failure(f"the request's layout {self.layout}: {error}") from error

    def work(self, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
        """Fill, and punch out what is to be free; note how much agrees."""
        ground.check(target)
        head, original = self.given(target)
        notes = laying.lay(target, self.generation, self.layout, (head, original), self.joined, check_lease)
        return Work(notes["files"], notes)

    def named(self, mounts: list[Path], noted: Notes) -> list[Path]:
        """The files that hold what is in use."""
        return [files.path_of(mounts, self.generation, index) for index in range(noted.get("files", 0))]

    def achieve(self, shares: list[Achieved], done: list[Step], capacity_bytes: int) -> None:
        """No share of files was asked for; the notes have what is free."""
        return
