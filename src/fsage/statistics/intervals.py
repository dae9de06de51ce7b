"""What one group of samples says, and how far apart two are: point estimates with exact intervals.

Each interval carries the level that it really has, because five samples cannot give every level. Samples are of units;
where two states have units of different kinds, the factor between them is drawn (Units).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import ClassVar

from fsage.base.sizes import ratio_text
from fsage.statistics.comparisons import rank_sum_tail, reachable

AIM = 0.95
"""The narrowest interval that reaches this level is taken."""
FLOOR = 0.90
"""Where none reaches AIM, the widest is taken if it reaches this; else there is no interval."""


LEAST = 5
"""Layouts or places that an interval needs."""
MARGIN = 0.03
"""What differs by less than this does not matter; that nothing does is said only where the interval shows it."""


OVER = {
    "layout": " over {n} layouts",
    "target": " over {n} targets",
    "place": " over {n} places",
    "sample": " over {n} rewrites of the same blocks",
}
"""What an interval is over, by its unit."""


@dataclass(frozen=True)
class Interval:
    low: float
    high: float
    level: float
    """Exact probability that an interval made this way holds the true value, e.g. 0.9375."""


@dataclass(frozen=True)
class Summary:
    """One group of samples, in the samples' own unit."""

    n: int
    median: float | None
    interval: Interval | None
    cov: float | None


@dataclass(frozen=True)
class Ratio:
    """A group divided by its reference: 0.71 means 71% of the reference. `why` says why something is none."""

    MARGIN: ClassVar[float] = MARGIN

    value: float | None
    interval: Interval | None
    n: int
    n_reference: int
    why: str | None = None
    unit: str = ""
    """What the interval is over (fsage.statistics.intervals), and how many; '' where that is plain."""
    units: int = 0

    @property
    def inverse(self) -> Ratio:
        """The reference divided by the group: of times, what the rates are to each other."""
        interval = self.interval
        ends = interval and Interval(1 / interval.high, 1 / interval.low, interval.level)
        return Ratio(self.value and 1 / self.value, ends, self.n_reference, self.n, self.why, self.unit, self.units)

    @property
    def loss_percent(self) -> float | None:
        """What the group is short of its reference, in percent; negative where it is ahead."""
        if self.value is None:
            return None
        return (1 - self.value) * 100

    def __str__(self) -> str:
        """'0.79'; '' where it is not known."""
        return "" if self.value is None else ratio_text(self.value)

    @property
    def over(self) -> str:
        """' over 5 layouts': what its interval is over."""
        return OVER.get(self.unit, "").format(n=self.units)

    @property
    def direction(self) -> int:
        """-1 a loss, 1 a gain, 0 where the interval holds 1 or is missing."""
        if self.interval is None or self.interval.low <= 1 <= self.interval.high:
            return 0
        if self.interval.high < 1:
            return -1
        return 1

    @property
    def alike(self) -> bool:
        """Whether no difference of MARGIN or more is shown: the interval lies within it (two one-sided tests)."""
        interval = self.interval
        return interval is not None and interval.low > 1 - MARGIN and interval.high < 1 / (1 - MARGIN)


def enough(family: int, most: int) -> int:
    """So many units on both sides that one difference among a family can be told from chance; at most `most`."""
    return next((number for number in range(LEAST, most) if reachable(number, number, family)), most)


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """Sample standard deviation (n - 1) over mean, as a fraction; none below two samples or at mean 0."""
    import numpy as np

    if len(values) < 2 or np.mean(values) == 0:
        return None
    return float(np.std(values, ddof=1) / np.mean(values))


def median_interval(values: Sequence[float]) -> Interval | None:
    """Distribution-free interval of the median between two order statistics.

    The k-th smallest and k-th largest of n samples hold the median with probability 1 - 2 P(B < k),
    B ~ Binomial(n, 1/2). Source: Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2.
    Five samples: smallest to largest, 93.75%. Fewer than five: none.
    """
    n = len(values)
    rank = _median_rank(n)
    if rank is None:
        return None
    k, level = rank
    ordered = sorted(values)
    return Interval(float(ordered[k - 1]), float(ordered[n - k]), level)


def summarise(values: Sequence[float]) -> Summary:
    """n, median with its exact interval, and the coefficient of variation of one group."""
    middle = float(median(values)) if values else None
    return Summary(len(values), middle, median_interval(values), coefficient_of_variation(values))


def ratio(values: Sequence[float], reference: Sequence[float]) -> Ratio:
    """The factor between two groups: the median of all pairwise ratios (Hodges-Lehmann on logarithms).

    The interval holds the factors that the exact two-sided rank-sum (Mann-Whitney) test does not reject; it
    assumes that the groups differ by a factor only. 5 against 5 gives 96.8%, 3 against 3 90%, fewer none.
    Source: Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 3rd ed., sections 4.2 and 4.3.
    """
    import numpy as np

    m = len(values)
    n = len(reference)
    if not m or not n:
        return Ratio(None, None, m, n, f"{m} samples against {n}: nothing to compare")
    if min(*values, *reference) <= 0:
        return Ratio(None, None, m, n, "a sample is not above zero")
    logs = np.sort(np.subtract.outer(np.log(values), np.log(reference)), axis=None)
    value = math.exp(float(np.median(logs)))
    rank = _ratio_rank(m, n)
    if rank is None:
        return Ratio(value, None, m, n, f"{m} against {n} samples are too few")
    k, level = rank
    return Ratio(value, Interval(math.exp(logs[k - 1]), math.exp(logs[m * n - k]), level), m, n)


@cache
def _median_rank(n: int) -> tuple[int, float] | None:
    from scipy.special import bdtr

    return _rank(n // 2, lambda k: float(bdtr(k - 1, n, 0.5)))


@cache
def _ratio_rank(m: int, n: int) -> tuple[int, float] | None:
    return _rank(m * n // 2, lambda k: rank_sum_tail(m, n, k - 1))


def _rank(largest: int, tail: Callable[[int], float]) -> tuple[int, float] | None:
    """The k of the narrowest interval, and its level 1 - 2 tail(k); none if even k = 1 stays below FLOOR."""

    def level(k: int) -> float:
        return 1 - 2 * tail(k)

    if largest < 1 or level(1) < FLOOR - 1e-9:
        return None
    narrowest = bisect_left(range(1, largest + 1), True, key=lambda k: level(k) < AIM)  # the level falls with k
    k = max(1, narrowest)
    return k, level(k)


LAYOUT = "layout"
TARGET = "target"
PLACE = "place"
SAMPLE = "sample"
DRAWN = (LAYOUT, TARGET)
"""Units that stand for others of the state; places and samples speak of one layout only."""


@dataclass(frozen=True)
class Units:
    """The values of a state by unit: `kind` is LAYOUT, TARGET, PLACE (in one layout) or SAMPLE (of the same blocks)."""

    kind: str
    by_unit: Mapping[Hashable, float]

    @property
    def values(self) -> list[float]:
        """Without their units."""
        return list(self.by_unit.values())

    @property
    def over(self) -> str:
        """' over 5 layouts': what they are repeated over."""
        return OVER.get(self.kind, "").format(n=len(self.by_unit))


def factor(in_state: Units, reference: Units, same: bool = False) -> Ratio:
    """A state over its reference, with the interval that its units allow.

    - Layouts of the same draws on both sides are pairs: the median of their ratios between two order statistics.
      Places are pairs where both sides are the `same` layout, measured twice.
    - Layouts against a state of one layout: the interval of their median over the median of that state.
    - Else Hodges-Lehmann (`ratio`): two states of one layout, or layouts of other draws; from LEAST units each on.
    """
    if not in_state.by_unit or not reference.by_unit or min(*in_state.values, *reference.values) <= 0:
        return ratio(in_state.values, reference.values)
    drawn = in_state.kind in DRAWN, reference.kind in DRAWN
    over = min((in_state, reference), key=lambda side: (side.kind not in DRAWN, len(side.values)))
    pairs_of = all(drawn) or (same and in_state.kind == reference.kind == PLACE)
    if pairs_of and in_state.by_unit.keys() == reference.by_unit.keys():
        pairs = [value / reference.by_unit[unit] for unit, value in in_state.by_unit.items()]
        result = _of_median(pairs, 1.0, len(pairs), over.kind)
    elif drawn == (True, False):
        result = _of_median(in_state.values, median(reference.values), len(reference.values), over.kind)
    elif drawn == (False, True):
        result = _of_median(reference.values, median(in_state.values), len(in_state.values), over.kind).inverse
    else:
        result = ratio(in_state.values, reference.values)
        if result.interval and min(result.n, result.n_reference) < LEAST:
            why = f"{result.n} against {result.n_reference} {over.kind}s are too few"
            result = replace(result, interval=None, why=why)
    return replace(result, unit=over.kind, units=len(over.values))


def _of_median(values: list[float], over: float, n_reference: int, unit: str) -> Ratio:
    """The median of values over a number that counts as known."""
    interval = median_interval(values)
    ends = interval and Interval(interval.low / over, interval.high / over, interval.level)
    why = None if interval else f"{len(values)} of the {LEAST} {unit}s that an interval needs"
    return Ratio(median(values) / over, ends, len(values), n_reference, why)
