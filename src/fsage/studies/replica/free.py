"""Free space that was read, changed: filled further, after deletions, and samples of a larger device.

A part that stands for a larger device is whole windows of neighbouring groups, drawn from strata of free share.
Nothing is scaled: inside a window everything lies as it lay. Windows keep their order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fsage.api.evidence import Free
from fsage.layouts.freespace import BUCKETS, bucket

BUFFERED = 1 << 16
Places = npt.NDArray[np.int64]
LONGEST_BYTES = 128 << 20
"""What is in use is deleted in pieces of so much at most: the longest extent that ext4 has."""


def filled(free: Free, percent: float, seed: int) -> Free:
    """The free space with the device filled to `percent` of its bytes. Raises ValueError when it is fuller already.

    Free extents are drawn that are taken whole, each as likely as any other: those that are left have the sizes, and
    lie, as all do now. The last one is taken in part.
    """
    free_bytes = size_of(free.places)
    device_bytes = free.head.device_bytes
    block = free.head.block_bytes
    left = int(device_bytes * (100 - percent) / 100) // block * block
    if not 0 < left < free_bytes:
        now = 100 * (1 - free_bytes / device_bytes)
        raise ValueError(f"it is {now:.1f}% full: it can be filled further to what is above that and below 100%")
    return replace(free, places=_joined(_drawn(free.places, left, seed)))


def deleted(free: Free, percent: float, seed: int) -> Free:
    """The free space after `percent` of the used bytes was deleted, drawn extent by extent. Raises ValueError.

    Which files those are, and which is the oldest, free extents do not tell: a piece is what lies between two of them.
    """
    if not 0 < percent < 100:
        raise ValueError(f"{percent:g}% of what is in use cannot be deleted: it is above 0 and below 100")
    pieces = _used(free)
    block = free.head.block_bytes
    gone = max(block, int(size_of(pieces) * percent / 100) // block * block)
    return replace(free, places=_joined(np.concatenate([free.places, _drawn(pieces, gone, seed)])))


def size_of(places: Places) -> int:
    """Bytes of all."""
    return int((places[:, 1] - places[:, 0]).sum())


def _drawn(places: Places, wanted: int, seed: int) -> Places:
    """So many bytes of them: each as likely as any other, and the last one in part."""
    chosen = places[np.random.default_rng(seed).permutation(len(places))]
    upto = np.cumsum(chosen[:, 1] - chosen[:, 0])
    last = int(np.searchsorted(upto, wanted))
    chosen[last, 1] -= upto[last] - wanted
    return chosen[: last + 1]


def _used(free: Free) -> Places:
    """What is in use, in pieces."""
    edges = np.concatenate([[0], np.asarray(free.places).ravel(), [free.head.device_bytes]]).reshape(-1, 2)
    edges = edges[edges[:, 1] > edges[:, 0]]
    cut = [np.append(np.arange(start, end, LONGEST_BYTES), end) for start, end in edges]
    return np.concatenate([np.stack([ends[:-1], ends[1:]], axis=1) for ends in cut])


def _joined(places: Places) -> Places:
    """Ascending, neighbours made one."""
    places = places[np.argsort(places[:, 0])]
    begins = np.ones(len(places), dtype=bool)
    begins[1:] = places[1:, 0] > places[:-1, 1]
    return np.stack([places[begins, 0], places[np.roll(begins, -1), 1]], axis=1)


WINDOW_DRAWS = 200
LEVEL = 0.95
CLASSES = 64
SHARES = 100

Counts = npt.NDArray[np.int64]


class Windows:
    """The windows of a device that are whole, each of `window_groups` groups but the device has fewer."""

    def __init__(self, free: Free, window_groups: int) -> None:
        self.free = free
        self.group_bytes = free.head.group_bytes
        groups = free.head.device_bytes // self.group_bytes
        self.of_groups = max(1, min(window_groups, groups))
        self.bytes = self.of_groups * self.group_bytes
        self.count = groups // self.of_groups
        self.by_size = np.zeros((self.count, CLASSES), dtype=np.int64)
        self._free_of_groups = np.zeros(self.count * self.of_groups, dtype=np.int64)
        for first in range(0, len(free.places), BUFFERED):
            self._add(free.places[first : first + BUFFERED])
        shares = self._free_of_groups * SHARES // self.group_bytes
        self.by_share = np.zeros((self.count, SHARES + 1), dtype=np.int64)
        np.add.at(self.by_share, (np.arange(len(shares)) // self.of_groups, shares), 1)
        self.free_bytes = self._free_of_groups.reshape(self.count, self.of_groups).sum(axis=1)
        strata = np.array([bucket(self.bytes, int(size)) for size in self.free_bytes])
        self.members = [np.flatnonzero(strata == stratum) for stratum in range(len(BUCKETS))]
        self._whole_by_size = self.by_size.sum(axis=0)
        self._whole_by_share = self.by_share.sum(axis=0)

    def _add(self, places: Counts) -> None:
        """Count free extents, each cut where a window or a group ends."""
        starts, lengths = _cut(places, self.bytes, self.count)
        np.add.at(self.by_size, (starts // self.bytes, np.frexp(lengths)[1] - 1), lengths)
        starts, lengths = _cut(places, self.group_bytes, len(self._free_of_groups))
        np.add.at(self._free_of_groups, starts // self.group_bytes, lengths)

    def drawn(self, number: int, seed: list[int]) -> Counts:
        """So many windows, from each stratum in proportion, in their order."""
        random = np.random.default_rng(seed)
        exact = np.array([number * len(member) / self.count for member in self.members])
        taken = np.floor(exact).astype(int)
        rest = number - taken.sum()
        # What is left over goes by chance, in proportion to what was cut off.
        if rest:
            cut = exact - taken
            more = random.choice(len(self.members), size=rest, replace=False, p=cut / cut.sum())
            np.add.at(taken, more, 1)
        chosen = [
            random.choice(member, size=size, replace=False)
            for member, size in zip(self.members, taken, strict=True)
            if size
        ]
        return np.sort(np.concatenate(chosen))

    def distances(self, chosen: Counts) -> tuple[float, float]:
        """Earth mover's distances of a sample to the whole: powers of two of extents by bytes, free share of groups."""
        sizes = _distance(np.arange(CLASSES), self._whole_by_size, self.by_size[chosen].sum(axis=0))
        shares = np.arange(SHARES + 1) / SHARES
        return sizes, _distance(shares, self._whole_by_share, self.by_share[chosen].sum(axis=0))

    def sample(self, device_bytes: int, seed: int, draw: int) -> Free:
        """The number of windows that fit on a device, as one of their own; its head says how well they stand for all.

        Raises ValueError when none fits.
        """
        number = min(self.count, device_bytes // self.bytes)
        if not number:
            raise ValueError(
                f"a window of {self.of_groups} groups has {self.bytes} bytes, and the target {device_bytes}: "
                "give fewer window_groups"
            )
        chosen = self.drawn(number, [seed, draw])
        inside = [self._inside(window) + place * self.bytes for place, window in enumerate(chosen.tolist())]
        head = self.free.head._replace(
            device_bytes=number * self.bytes,
            drawn={**(self.free.head.drawn or {}), **self._notes(chosen, seed)},
            geometry=None,
        )
        return replace(self.free, head=head, places=_joined(np.concatenate(inside)))

    def _inside(self, window: int) -> Places:
        """The free extents in a window, from its own beginning on."""
        places = self.free.places
        begin = window * self.bytes
        first = int(np.searchsorted(places[:, 1], begin, side="right"))
        last = int(np.searchsorted(places[:, 0], begin + self.bytes, side="left"))
        return np.clip(places[first:last] - begin, 0, self.bytes)

    def _notes(self, chosen: Counts, seed: int) -> dict[str, object]:
        many = np.array(
            [self.distances(self.drawn(len(chosen), [seed, WINDOW_DRAWS, draw])) for draw in range(WINDOW_DRAWS)]
        )
        tail = (1 - LEVEL) / 2
        named = zip(("size", "share"), self.distances(chosen), many.T, strict=True)
        return {
            "windows": chosen.tolist(),
            "of_windows": self.count,
            "window_groups": self.of_groups,
            "free_share_whole": float(self.free_bytes.sum() / (self.count * self.bytes)),
            "free_share_sample": float(self.free_bytes[chosen].sum() / (len(chosen) * self.bytes)),
            **{
                f"emd_{name}": {
                    "this": own,
                    "low": float(np.quantile(others, tail)),
                    "high": float(np.quantile(others, 1 - tail)),
                    "level": LEVEL,
                    "draws": WINDOW_DRAWS,
                }
                for name, own, others in named
            },
        }


def _cut(places: Counts, size: int, count: int) -> tuple[Counts, Counts]:
    """Starts and lengths of extents, cut at the multiples of `size`, of which there are `count`."""
    starts = places[:, 0].astype(np.int64)
    ends = places[:, 1].astype(np.int64)
    pieces = (ends - 1) // size - starts // size + 1
    which = np.repeat(np.arange(len(places)), pieces)
    number = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    edges = (starts // size)[which] * size + number * size
    cut = np.maximum(edges, starts[which])
    lengths = np.minimum(edges + size, ends[which]) - cut
    inside = cut // size < count
    return cut[inside], lengths[inside]


def _distance(values: npt.NDArray[Any], whole: Counts, part: Counts) -> float:
    if not whole.sum() or not part.sum():
        if whole.sum() == part.sum():
            return 0.0
        return float("inf")
    from scipy.stats import wasserstein_distance

    return float(wasserstein_distance(values, values, part, whole))
