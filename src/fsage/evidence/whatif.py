"""What a layout would be like: filled further by its own pattern, or after some of what is in use was deleted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fsage.evidence.free import Free, Places

LONGEST_BYTES = 128 << 20
"""What is in use is deleted in pieces of so much at most: the longest extent that ext4 has."""


def filled(free: Free, percent: float, seed: int) -> Free:
    """The same device filled to `percent` of its bytes. Raises ValueError where it is that full already.

    Free extents are drawn that are taken whole, each as likely as any other: those that are left have the sizes, and
    lie, as all do now. The last one is taken in part.
    """
    lengths = free.places[:, 1] - free.places[:, 0]
    device_bytes, block = free.head.device_bytes, free.head.block_bytes
    left = int(device_bytes * (100 - percent) / 100) // block * block
    if not 0 < left < lengths.sum():
        now = 100 * (1 - lengths.sum() / device_bytes)
        raise ValueError(f"it is {now:.1f}% full: it can be filled further to what is above that and below 100%")
    order = np.random.default_rng(seed).permutation(len(lengths))
    upto = np.cumsum(lengths[order])
    kept = int(np.searchsorted(upto, left))  # the one that is left in part
    found = free.places[np.sort(order[: kept + 1])].copy()
    found[found[:, 0] == free.places[order[kept], 0], 1] -= upto[kept] - left
    return replace(free, places=found[found[:, 1] > found[:, 0]])


def deleted(free: Free, percent: float, seed: int) -> Free:
    """The same device after `percent` of what is in use was deleted, drawn piece by piece. Raises ValueError.

    Which files those are, and which is the oldest, free extents do not tell: a piece is what lies between two of them.
    """
    if not 0 < percent < 100:
        raise ValueError(f"{percent:g}% of what is in use cannot be deleted: it is above 0 and below 100")
    pieces = _used(free)
    lengths = pieces[:, 1] - pieces[:, 0]
    block = free.head.block_bytes
    gone = max(block, int(lengths.sum() * percent / 100) // block * block)
    order = np.random.default_rng(seed).permutation(len(lengths))
    upto = np.cumsum(lengths[order])
    last = int(np.searchsorted(upto, gone))
    chosen = pieces[order[: last + 1]].copy()
    chosen[-1, 1] -= upto[last] - gone
    return replace(free, places=_joined(np.concatenate([np.asarray(free.places), chosen])))


def _used(free: Free) -> Places:
    """What is in use, in pieces."""
    edges = np.concatenate([[0], np.asarray(free.places).ravel(), [free.head.device_bytes]]).reshape(-1, 2)
    edges = edges[edges[:, 1] > edges[:, 0]]
    cut = [np.append(np.arange(start, end, LONGEST_BYTES), end) for start, end in edges]
    return np.concatenate([np.stack([one[:-1], one[1:]], axis=1) for one in cut])


def _joined(places: Places) -> Places:
    """Ascending, neighbours made one."""
    places = places[np.argsort(places[:, 0])]
    begins = np.append(True, places[1:, 0] > places[:-1, 1])
    ends = np.append(begins[1:], True)
    return np.stack([places[begins, 0], places[ends, 1]], axis=1)
