"""A part that stands for a larger device: whole windows of neighbouring groups, drawn from strata of free share.

Nothing is scaled: inside a window everything lies as it lay. Windows keep their order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import wasserstein_distance

from fsage.evidence.free import BUFFERED, Free
from fsage.model.evidence.extents import Extents, Head
from fsage.model.evidence.freespace import BUCKETS, bucket

DRAWS = 200
LEVEL = 0.95
CLASSES = 64
SHARES = 100

Counts = npt.NDArray[np.int64]


class Sample(NamedTuple):
    """Windows of a larger device as a device of their own; its head says how well they stand for the whole."""

    head: Head
    extents: Extents


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
        self._whole_by_size, self._whole_by_share = self.by_size.sum(axis=0), self.by_share.sum(axis=0)

    def _add(self, places: Counts) -> None:
        """Count free extents, each cut where a window or a group ends."""
        for starts, ends, count, add in (
            (*_cut(places, self.bytes), self.count, self._by_size),
            (*_cut(places, self.group_bytes), len(self._free_of_groups), self._by_group),
        ):
            of = starts // (self.bytes if add == self._by_size else self.group_bytes)
            whole = of < count
            add(of[whole], (ends - starts)[whole])

    def _by_size(self, windows: Counts, lengths: Counts) -> None:
        np.add.at(self.by_size, (windows, np.frexp(lengths)[1] - 1), lengths)

    def _by_group(self, groups: Counts, lengths: Counts) -> None:
        np.add.at(self._free_of_groups, groups, lengths)

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

    def sample(self, device_bytes: int, seed: int, draw: int) -> Sample:
        """The number of windows that fit on the device. Raises ValueError when none fits."""
        number = min(self.count, device_bytes // self.bytes)
        if not number:
            raise ValueError(
                f"a window of {self.of_groups} groups has {self.bytes} bytes, and the target {device_bytes}: "
                "give fewer window_groups"
            )
        chosen = self.drawn(number, [seed, draw])
        extents: Extents = []
        for place, window in enumerate(chosen.tolist()):
            shift = (place - window) * self.bytes
            for start, end in self._inside(window * self.bytes, (window + 1) * self.bytes):
                begin = start + shift
                if extents and extents[-1][1] == begin:
                    begin = extents.pop()[0]
                extents.append((begin, end + shift))
        drawn = {**(self.free.head.drawn or {}), **self._notes(chosen, seed)}
        return Sample(self.free.head._replace(device_bytes=number * self.bytes, drawn=drawn, geometry=None), extents)

    def _inside(self, begin: int, end: int) -> list[tuple[int, int]]:
        places = self.free.places
        first = int(np.searchsorted(places[:, 1], begin, side="right"))
        last = int(np.searchsorted(places[:, 0], end, side="left"))
        return [(max(begin, start), min(end, stop)) for start, stop in places[first:last].tolist()]

    def _notes(self, chosen: Counts, seed: int) -> dict[str, object]:
        many = np.array([self.distances(self.drawn(len(chosen), [seed, DRAWS, draw])) for draw in range(DRAWS)])
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
                    "draws": DRAWS,
                }
                for name, own, others in named
            },
        }


def _cut(places: Counts, size: int) -> tuple[Counts, Counts]:
    """Starts and ends of extents, cut at the multiples of `size`."""
    starts = places[:, 0].astype(np.int64)
    ends = places[:, 1].astype(np.int64)
    pieces = (ends - 1) // size - starts // size + 1
    which = np.repeat(np.arange(len(places)), pieces)
    number = np.arange(len(which)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    edges = (starts // size)[which] * size + number * size
    return np.maximum(edges, starts[which]), np.minimum(edges + size, ends[which])


def _distance(values: npt.NDArray[Any], whole: Counts, part: Counts) -> float:
    if not whole.sum() or not part.sum():
        if whole.sum() == part.sum():
            return 0.0
        return float("inf")
    return float(wasserstein_distance(values, values, part, whole))
