"""Free extents of which a text has the sizes by class only: sizes within the classes and places, drawn.

Each draw is a layout that the text could be of. What it says is kept: how many extents each class has, and of how many
bytes. Where it does not say how large the device is, that is drawn too, from half full to 95% full.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fsage.model.evidence.extents import Head
from fsage.model.typed import Json

FULL_PERCENT = (50.0, 95.0)
GROUP_BYTES = 128 << 20
DRAWS = 5
"""The fewest that give an interval."""

Blocks = npt.NDArray[np.int64]


def lay(store: Json, seed: Sequence[int]) -> tuple[Head, Blocks]:
    """A device with the free extents of a Store.summary, and their starts and ends in bytes, ascending.

    Raises ValueError where so many extents do not fit on it.
    """
    random = np.random.default_rng(seed)
    block = store["block_bytes"]
    classes = [row for row in store["free_extents"]["histogram"] if row["extents"]]
    sizes = np.concatenate([_sizes(row, block, random) for row in classes])
    free = int(sizes.sum())
    blocks = (store["device_bytes"] or 0) // block
    if not blocks:
        blocks = int(free / (1 - random.uniform(*FULL_PERCENT) / 100)) + len(sizes)
    if blocks - free < len(sizes) - 1:
        raise ValueError(f"{len(sizes):,} free extents cannot lie apart in {blocks - free:,} blocks in use")
    random.shuffle(sizes)
    # Blocks in use before each extent: at least one between two, the rest cut at random.
    cuts = np.sort(random.integers(0, blocks - free - len(sizes) + 2, size=len(sizes)))
    ends = cuts + np.arange(len(sizes)) + np.cumsum(sizes)
    drawn = {"from_sizes": store["source"]["free"], "size_known": store["device_bytes"] is not None}
    head = Head(
        blocks * block, block, min(blocks * block, GROUP_BYTES), store["filesystem"], store["source"]["free"], drawn
    )
    return head, np.stack([ends - sizes, ends], axis=1) * block


def _sizes(row: Json, block: int, random: np.random.Generator) -> Blocks:
    """Sizes of a class in blocks: of its mean, between its bounds, and of its sum."""
    number, total, low = row["extents"], row["bytes"] // block, -(-row["from_bytes"] // block)
    room = max(0, -(-2 * row["from_bytes"] // block) - 1 - low)
    share = min(1.0, max(0.0, (total / number - low) / room)) if room else 0.0
    above = random.random(number) ** ((1 - share) / share) if share else np.zeros(number)
    sizes = low + np.floor(room * above).astype(np.int64)
    while missing := total - int(sizes.sum()):
        sign = 1 if missing > 0 else -1
        own_room = low + room - sizes if missing > 0 else sizes - low
        if not own_room.any():
            own_room = np.full(number, abs(missing))
        able = random.permutation(np.flatnonzero(own_room > 0))
        step = max(1, abs(missing) // len(able))
        able = able[: abs(missing) // step]
        sizes[able] += sign * np.minimum(step, own_room[able])
    return sizes
