"""Whether two groups of samples differ, one comparison at a time and as a family of many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

ALPHA = 0.05
"""Chance of a false alarm that a test may have, and that a family of primary comparisons may have together."""
RESAMPLES = 9999
SEED = 1
EXCHANGES = 2000
WINSOR = 5.0
LEAST_SCALE = 1e-6


def smallest_p(n: int, n_reference: int) -> float:
    """The least p that the exact two-sided rank-sum test can give: one of C(n + n_reference, n) orders, twice.

    5 against 5: 0.0079. Without a sample on both sides: 1.
    """
    return min(1.0, 2 / math.comb(n + n_reference, n))


def reachable(n: int, n_reference: int, family: int, alpha: float = ALPHA) -> bool:
    """Whether a comparison can become significant among `family` comparisons of the same sizes.

    Holm's procedure asks the first of them to reach alpha / family; where that is out of reach, nothing follows.
    """
    return smallest_p(n, n_reference) * family <= alpha


def compare(values: Sequence[float], reference: Sequence[float]) -> float | None:
    """p of the exact two-sided rank-sum (Mann-Whitney) test; none where it could not fall to ALPHA.

    Ties: the permutation distribution of the statistic itself, complete up to RESAMPLES orders (7 against 7), else
    that many drawn by a fixed seed; such a p holds its level too, but none is below 2 / (RESAMPLES + 1).
    Sources: Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 3rd ed., section 4.1; Phipson and Smyth,
    Permutation p-values should never be zero, 2010.
    """
    import numpy as np

    n = len(values)
    m = len(reference)
    if not reachable(n, m, family=1):
        return None
    if len({*values, *reference}) < n + m:
        return _tied_p(*_ranks(values, reference))
    u = int(np.greater.outer(values, reference).sum())
    return min(1.0, 2 * rank_sum_tail(n, m, min(u, n * m - u)))


def adjust_primary(ps: Sequence[float | None]) -> list[float | None]:
    """The p values of a family that was declared beforehand, adjusted by Holm's procedure.

    At or below ALPHA they are significant, with a chance of ALPHA at most that any of them is a false alarm. A
    comparison without p counts in the family, so that what could not be measured makes no other look better.
    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    import numpy as np

    family = np.array([1.0 if p is None else p for p in ps])
    order = np.argsort(family, kind="stable")
    stepped = np.maximum.accumulate(family[order] * np.arange(len(family), 0, -1))
    adjusted = np.empty_like(family)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [None if p is None else float(new) for p, new in zip(ps, adjusted, strict=True)]


def adjust_exploratory(ps: Sequence[float | None]) -> list[float | None]:
    """The p values of everything else that was tested, adjusted by Benjamini and Hochberg's procedure.

    Of those at or below ALPHA a share of ALPHA is expected to be false. What has no p was not tested.
    """
    tested = [p for p in ps if p is not None]
    if not tested:
        return list(ps)
    from scipy import stats

    adjusted = iter(stats.false_discovery_control(tested))
    return [None if p is None else float(next(adjusted)) for p in ps]


def exchanged(logs: Sequence[np.ndarray], groups: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[float]]:
    """The p of each group, and of each family as a whole, that paired logarithms (after less before) are 0 in it.

    `logs`: an array a family (a rate), whose noise is alike; `groups`: to which group each belongs, from 0. Where
    nothing changed, before and after may be exchanged in each pair, and pairs among the groups. A statistic is the sum
    over the root of its pairs; what is beyond WINSOR of the family's medians counts as that, so that a stalled sample
    does not hide a change. The unit is their root mean square, for else a family in which all changed alike would be
    narrower than the noise of another. p is the share of exchanges in which any group or family is as far off (maxT),
    so ALPHA is the chance of any false alarm.
    Source: Westfall and Young, Resampling-based multiple testing, 1993.
    """
    import numpy as np

    rng = np.random.default_rng(SEED)
    scaled = [np.clip(part / max(np.median(np.abs(part)), LEAST_SCALE), -WINSOR, WINSOR) for part in logs]
    scaled = [part / max(np.sqrt(np.mean(part**2)), LEAST_SCALE) for part in scaled]
    roots = [np.sqrt(np.bincount(codes)) for codes in groups]

    def far(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        found = []
        for codes, root, part in zip(groups, roots, parts, strict=True):
            sums = np.bincount(codes, part)
            found.append(np.abs(np.append(sums / root, sums.sum() / np.sqrt((root**2).sum()))))
        return found

    observed = far(scaled)
    most = [max(part.max() for part in observed)]
    for _ in range(EXCHANGES - 1):
        drawn = [rng.permutation(part) * rng.choice((-1, 1), len(part)) for part in scaled]
        most.append(max(part.max() for part in far(drawn)))
    ps = [(np.array(most)[:, None] >= part - 1e-9).mean(0) for part in observed]
    return [part[:-1] for part in ps], [float(part[-1]) for part in ps]


@cache
def rank_sum_tail(m: int, n: int, u: int) -> float:
    """P(U <= u) of the Mann-Whitney statistic of m against n samples, without ties, under no difference.

    SciPy offers the exact distribution only as the p-value of a sample: one is laid out whose statistic is u.
    """
    import numpy as np
    from scipy import stats

    above, rest = divmod(u, n)
    reference = np.arange(n, dtype=float)
    below = m - above - 1
    values = [n + i for i in range(above)] + [rest - 0.5] * (above < m) + [-1.0 - i for i in range(below)]
    return float(stats.mannwhitneyu(values, reference, alternative="less", method="exact").pvalue)


def _ranks(values: Sequence[float], reference: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    from scipy import stats

    ranks = stats.rankdata([*values, *reference]).tolist()
    return tuple(sorted(ranks[: len(values)])), tuple(sorted(ranks[len(values) :]))


@cache
def _tied_p(ranks: tuple[float, ...], reference: tuple[float, ...]) -> float:
    """All that the test sees are ranks, and of few samples there are few: a report asks the same again and again."""
    import numpy as np
    from scipy import stats

    method = stats.PermutationMethod(n_resamples=RESAMPLES, rng=np.random.default_rng(SEED))
    return float(stats.mannwhitneyu(ranks, reference, method=method).pvalue)
