"""Whether two groups of samples differ, one comparison at a time and as a family of many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

ALPHA = 0.05
"""Chance of a false alarm that a test may have, and that a family of primary comparisons may have together."""
RESAMPLES = 9999
SEED = 1


@dataclass(frozen=True)
class Test:
    """The two-sided p of a group against its reference. `why` says why there is none."""

    __test__ = False  # pytest would collect it for its name

    p: float | None
    n: int
    n_reference: int
    why: str | None = None


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


def compare(values: Sequence[float], reference: Sequence[float]) -> Test:
    """The exact two-sided rank-sum (Mann-Whitney) test; no p where it could not fall to ALPHA.

    Ties: the permutation distribution of the statistic itself, complete up to RESAMPLES orders (7 against 7), else
    that many drawn by a fixed seed; such a p holds its level too, but none is below 2 / (RESAMPLES + 1).
    Sources: Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, 3rd ed., section 4.1; Phipson and Smyth,
    Permutation p-values should never be zero, 2010.
    """
    from scipy import stats

    n, m = len(values), len(reference)
    if not n or not m:
        return Test(None, n, m, f"{n} samples against {m}: nothing to compare")
    if not reachable(n, m, family=1):
        return Test(None, n, m, f"{n} against {m} samples are too few: p can be no lower than {smallest_p(n, m):.2g}")
    ranks = stats.rankdata([*values, *reference]).tolist()
    return Test(_rank_sum_p(tuple(sorted(ranks[:n])), tuple(sorted(ranks[n:]))), n, m)


def adjust_primary(ps: Sequence[float | None]) -> list[float | None]:
    """The p values of a family that was declared beforehand, adjusted by Holm's procedure.

    At or below ALPHA they are significant, with a chance of ALPHA at most that any of them is a false alarm. A
    comparison without p counts in the family, so that what could not be measured makes no other look better.
    """
    adjusted = _adjusted([1.0 if p is None else p for p in ps], "holm")
    return [None if p is None else new for p, new in zip(ps, adjusted, strict=True)]


def adjust_exploratory(ps: Sequence[float | None]) -> list[float | None]:
    """The p values of everything else that was tested, adjusted by Benjamini and Hochberg's procedure.

    Of those at or below ALPHA a share of ALPHA is expected to be false. What has no p was not tested.
    """
    adjusted = iter(_adjusted([p for p in ps if p is not None], "fdr_bh"))
    return [None if p is None else next(adjusted) for p in ps]


def _adjusted(ps: list[float], method: str) -> list[float]:
    from statsmodels.stats.multitest import multipletests

    return [float(p) for p in multipletests(ps, ALPHA, method)[1]] if ps else []


@cache
def _rank_sum_p(ranks: tuple[float, ...], reference: tuple[float, ...]) -> float:
    """The test sees ranks only, and of few samples there are few: a report asks the same again and again."""
    from scipy import stats

    tied = len({*ranks, *reference}) < len(ranks) + len(reference)
    method = stats.PermutationMethod(n_resamples=RESAMPLES, rng=np.random.default_rng(SEED)) if tied else "exact"
    return float(stats.mannwhitneyu(ranks, reference, method=method).pvalue)
