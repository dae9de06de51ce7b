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
from typing import TYPE_CHECKING

from fsage.host.structure import Work
from fsage.model.errors import Failure
from fsage.model.evidence import extents
from fsage.model.evidence.extents import Extents, Head
from fsage.model.evidence.store import NotThisText
from fsage.model.structure import Shard, Step
from fsage.studies.replica.host import free_space, free_space_layout

if TYPE_CHECKING:
    from fsage.host.targets.target import Target
from fsage.studies.replica.model import Replica

MOST_BYTES = 1 << 30
"""Of a list of free extents."""


def _given(step: Replica, target: Target) -> tuple[Head, Extents]:
    """The list of free extents, as the request has it. Raises Failure."""
    try:
        content = zlib.decompressobj()
        text = content.decompress(base64.b64decode(target.inputs[step.input or ""], validate=True), MOST_BYTES)
        if not content.eof or hashlib.sha256(text).hexdigest() != step.input:
            raise NotThisText("it is not the one that was named, or too long")
        head, free = extents.read(text.splitlines(keepends=True))
        return head, list(free)
    except KeyError:
        raise Failure(
            f"the request lacks the layout {step.layout}; `fsage request STUDY STATE` makes a complete request"
        ) from None
    except (NotThisText, binascii.Error, zlib.error) as error:
        raise Failure(f"the request's layout {step.layout}: {error}") from error


def work(step: Replica, target: Target, done: list[Step], shard: Shard, check_lease: Callable[[], None]) -> Work:
    """Lay out the free space of the request's layout; notes of how far it agrees."""
    free_space.check(target)
    head, original = _given(step, target)
    notes = free_space_layout.lay(target, step.generation, step.layout, (head, original), step.joined, check_lease)
    return Work(notes["files"], notes)
