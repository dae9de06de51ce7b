"""Estimators against values worked out by hand and, for the intervals, against simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from fsage.statistics import coefficient_of_variation, median_interval, ratio, reachable, smallest_p, summarise


def test_cov_is_sample_deviation_over_mean():
    assert coefficient_of_variation([90, 100, 110]) == pytest.approx(0.1)
    assert coefficient_of_variation([100]) is None
    assert coefficient_of_variation([]) is None


@pytest.mark.parametrize(
    ("n", "k", "level"),
    [(5, 1, 0.9375), (6, 1, 0.96875), (8, 1, 0.9921875), (9, 2, 0.9609375), (20, 6, 0.9586105)],
)
def test_median_interval_has_the_tabled_ranks_and_level(n, k, level):
    interval = median_interval(list(range(n, 0, -1)))
    assert (interval.low, interval.high) == (k, n + 1 - k)
    assert interval.level == pytest.approx(level, abs=1e-6)


@pytest.mark.parametrize("n", range(5))
def test_median_of_few_samples_has_no_interval_and_says_so(n):
    summary = summarise([3.0] * n)
    assert summary.interval is None
    assert summary.why == f"{n} of the 5 samples that an interval needs"
    assert summary.median == (3.0 if n else None)


@pytest.mark.parametrize(
    ("m", "n", "level"), [(5, 5, 1 - 2 * 4 / 252), (4, 4, 1 - 2 / 70), (3, 4, 1 - 2 / 35), (3, 3, 0.9)]
)
def test_ratio_interval_has_the_level_of_the_exact_rank_test(m, n, level):
    result = ratio([1.0 + i for i in range(m)], [1.0 + i for i in range(n)])
    assert result.interval.level == pytest.approx(level)


def test_ratio_is_the_median_of_pairwise_ratios_and_turns_round():
    values, reference = [70.0, 71.0, 72.0, 69.0, 74.0], [100.0, 101.0, 98.0, 103.0, 99.0]
    there, back = ratio(values, reference), ratio(reference, values)
    pairs = [v / r for v in values for r in reference]
    assert there.value == pytest.approx(np.median(pairs))
    assert there.loss_percent == pytest.approx((1 - np.median(pairs)) * 100)
    assert back.value == pytest.approx(1 / there.value)
    assert back.interval.low == pytest.approx(1 / there.interval.high)
    assert back.interval.high == pytest.approx(1 / there.interval.low)
    assert (there.direction, back.direction) == (-1, 1)


def test_ratio_interval_inverts_the_test():
    """Just inside its bounds the rank test keeps the factor, just outside it rejects it."""
    rng = np.random.default_rng(3)
    values, reference = rng.lognormal(0.1, 0.2, 7), rng.lognormal(0, 0.2, 6)
    interval = ratio(values, reference).interval
    alpha = 1 - interval.level

    def p(factor):
        return stats.mannwhitneyu(values / factor, reference, method="exact").pvalue

    assert p(interval.low * 1.0001) > alpha + 1e-9 and p(interval.high * 0.9999) > alpha + 1e-9
    assert p(interval.low * 0.9999) <= alpha + 1e-9 and p(interval.high * 1.0001) <= alpha + 1e-9


@pytest.mark.parametrize(
    ("values", "reference", "why"),
    [
        ([], [1.0], "nothing to compare"),
        ([1.0], [], "nothing to compare"),
        ([0.0, 1.0], [1.0], "not above zero"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "too few"),
    ],
)
def test_ratio_of_too_little_says_why(values, reference, why):
    result = ratio(values, reference)
    assert result.interval is None and result.direction == 0
    assert why in result.why


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 9), (3, 3), (4, 6), (5, 5)])
def test_smallest_p_is_what_the_test_gives_when_nothing_overlaps(m, n):
    p = stats.mannwhitneyu(np.arange(m) - 100.0, np.arange(n), method="exact").pvalue
    assert smallest_p(m, n) == pytest.approx(p)


def test_nothing_can_be_told_from_no_sample():
    assert smallest_p(0, 5) == smallest_p(5, 0) == 1


@pytest.mark.parametrize(
    ("n", "family", "within"), [(5, 6, True), (5, 7, False), (4, 1, True), (4, 2, False), (3, 1, False)]
)
def test_few_samples_carry_a_small_family_only(n, family, within):
    assert reachable(n, n, family) is within


@pytest.mark.parametrize("n", [5, 9])
def test_coverage_of_the_median_interval(n):
    rng, trials = np.random.default_rng(n), 4000
    intervals = [median_interval(row) for row in rng.lognormal(0, 0.3, (trials, n))]
    assert_coverage(intervals, 1.0, trials)


@pytest.mark.parametrize(("m", "n"), [(5, 5), (3, 6)])
def test_coverage_of_the_ratio_interval(m, n):
    rng, trials = np.random.default_rng(m), 2500
    intervals = [ratio(0.7 * rng.lognormal(0, 0.1, m), rng.lognormal(0, 0.1, n)).interval for _ in range(trials)]
    assert_coverage(intervals, 0.7, trials)


def assert_coverage(intervals, truth, trials):
    """As many intervals as the printed level says hold the truth, within the simulation's error."""
    level = intervals[0].level
    covered = sum(i.low <= truth <= i.high for i in intervals) / trials
    assert abs(covered - level) < 3.5 * math.sqrt(level * (1 - level) / trials)
