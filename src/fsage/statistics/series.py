"""What the order of samples says, and which of them lie apart."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from fsage.statistics.comparisons import ALPHA

if TYPE_CHECKING:
    import numpy as np

ORDERS_AT_MOST = 5040
"""Orders of tied samples that are gone through, those of seven; with more samples the distribution is normal."""

NORMAL_MAD = 0.6745
"""The median absolute deviation of a normal distribution, in standard deviations."""
CUTS = ((3, 120.0), (4, 18.5), (6, 11.0), (8, 8.5), (10, 7.2), (15, 6.2), (20, 5.5), (30, 5.0))
"""(n, score): from n samples on, one of 100 groups of normal samples or fewer has a score beyond this."""


@dataclass(frozen=True)
class Trend:
    """Kendall's tau of samples over their order, 1 for ever rising, and its two-sided p. `why`: why there is no p."""

    tau: float | None
    p: float | None
    why: str | None = None


def trend(values: Sequence[float]) -> Trend:
    """The Mann-Kendall test: does the order of the samples, such as that of time, say something of their size?

    Exact without ties and, with ties, up to seven samples; beyond, the normal approximation with the variance that
    ties leave. Fewer than five samples cannot reach ALPHA. Source: Kendall, Rank Correlation Methods, 4th ed., ch. 4.
    """
    n = len(values)
    least = 2 / math.factorial(min(n, 5))
    if least > ALPHA:
        return Trend(None, None, f"{n} samples are too few: p can be no lower than {min(1.0, least):.2g}")
    from scipy import stats

    tau, p = _kendall(tuple(stats.rankdata(values).tolist()))
    return Trend(tau, p)


@cache
def _kendall(ranks: tuple[float, ...]) -> tuple[float, float]:
    """Tau over the order, and its p; of few samples there are few orders, which a report asks again and again."""
    import numpy as np
    from scipy import stats

    n = len(ranks)
    tied = len(set(ranks)) < len(ranks)
    if len(set(ranks)) == 1:
        return 0.0, 1.0
    result = stats.kendalltau(np.arange(n), ranks, method="asymptotic" if tied else "exact")
    p = result.pvalue
    if tied and math.factorial(min(n, 8)) <= ORDERS_AT_MOST:
        orders = {"permutation_type": "pairings", "n_resamples": ORDERS_AT_MOST}
        p = stats.permutation_test((ranks,), _rises_less_falls, vectorized=True, **orders).pvalue
    return float(result.statistic), float(p)


def _rises_less_falls(samples: np.ndarray, axis: int) -> np.ndarray:
    """Kendall's S: of all pairs along the axis, those that rise less those that fall."""
    import numpy as np

    samples = np.moveaxis(samples, axis, -1)
    return np.triu(np.sign(samples[..., None, :] - samples[..., :, None])).sum((-2, -1))


@dataclass(frozen=True)
class Change:
    """After how many values a series changes most, and the two-sided p that it does not; none of too few values."""

    after: int | None
    p: float | None


LEAST_FOR_CHANGE = 8
"""Values that can show a change: of seven, 2 of 35 orders are as clear as any (p = 0.057)."""
CHANGE_ORDERS = 9999


def change(values: Sequence[float]) -> Change:
    """Pettitt's test: does the series move to another level somewhere, and where? By drawn orders, the same each time.

    Source: A. N. Pettitt, A non-parametric approach to the change-point problem, Applied Statistics 28 (1979).
    """
    if len(values) < LEAST_FOR_CHANGE:
        return Change(None, None)
    import numpy as np
    from scipy import stats

    ranks = stats.rankdata(values)
    if ranks.min() == ranks.max():
        return Change(None, 1.0)
    orders = {"permutation_type": "pairings", "n_resamples": CHANGE_ORDERS, "alternative": "greater"}
    rng = np.random.default_rng(1)
    p = stats.permutation_test((ranks,), _most_apart, vectorized=True, rng=rng, **orders).pvalue
    return Change(int(np.abs(_apart(ranks)).argmax()) + 1, float(p))


def _most_apart(ranks: np.ndarray, axis: int) -> np.ndarray:
    """Pettitt's K."""
    import numpy as np

    return np.abs(_apart(np.moveaxis(ranks, axis, -1))).max(-1)


def _apart(ranks: np.ndarray) -> np.ndarray:
    """Pettitt's U after 1, 2, ... of n values: how far the ranks up to there are from what is usual."""
    import numpy as np

    count = ranks.shape[-1]
    return 2 * ranks.cumsum(-1)[..., :-1] - np.arange(1, count) * (count + 1)


LEAST_FAR = 0.01
"""What is nearer to the median is no outlier: a third of what a report calls alike. Virtual seconds scatter by less."""


def outliers(values: Sequence[float]) -> list[tuple[int, str]]:
    """Index of each sample that lies far from the others, and why; to be flagged, never to be dropped.

    The modified z score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993): distance from the median
    in median absolute deviations, scaled as if normal. Their cut of 3.5 is for ten samples and more, where it still
    marks one clean group in eight (of five: one in five); CUTS marks one in a hundred. Needs three samples, of which
    fewer than half are equal: else nothing is flagged. With five, only what is glaring can be; with three, only what
    is beside two that are all but equal. What is nearer than LEAST_FAR is none.
    """
    import numpy as np

    place = bisect_right(CUTS, len(values), key=lambda cut: cut[0])
    if not place:
        return []
    median = float(np.median(values))
    mad = float(np.median(np.abs(np.asarray(values) - median)))
    if not mad:
        return []
    result = []
    for index, value in enumerate(values):
        score = NORMAL_MAD * abs(value - median) / mad
        if score > CUTS[place - 1][1] and abs(value - median) >= LEAST_FAR * abs(median):
            side = "above" if value > median else "below"
            if median:
                far = f"{abs(value / median - 1):.1%} {side} the median"
            else:
                far = f"{side} the median"
            result.append((index, f"{far}, {score:.0f} times the usual scatter (cut: {CUTS[place - 1][1]:g})"))
    return result
