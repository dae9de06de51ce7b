"""Estimators and tests against values worked out by hand and against enumeration; simulation has its own file."""

import math
import random
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fsage.statistics import (
    adjust_exploratory,
    adjust_primary,
    change,
    coefficient_of_variation,
    compare,
    comparisons,
    exchanged,
    median_interval,
    outliers,
    ratio,
    reachable,
    smallest_p,
    summarise,
    trend,
)

# A clock of milliseconds ties what it times: few distinct values are the case to fear.
COARSE = st.integers(1, 6).map(float)
unhurried = settings(deadline=None)  # the first call imports SciPy


def test_cov_is_sample_deviation_over_mean():
    assert coefficient_of_variation([90, 100, 110]) == pytest.approx(0.1)
    assert coefficient_of_variation([100]) is None
    assert coefficient_of_variation([-1.0, 1.0]) is None, "no share of a mean of 0"
    assert coefficient_of_variation([0.5, 1.5]) == pytest.approx(math.sqrt(0.5))


@pytest.mark.parametrize(
    ("n", "k", "level"),
    [(5, 1, 0.9375), (8, 1, 0.9921875), (9, 2, 0.9609375), (20, 6, 0.9586105)],
)
def test_median_interval_has_the_tabled_ranks_and_level(n, k, level):
    interval = median_interval(list(range(n, 0, -1)))
    assert (interval.low, interval.high) == (k, n + 1 - k)
    assert interval.level == pytest.approx(level, abs=1e-6)


@pytest.mark.parametrize("n", [0, 4])
def test_median_of_few_samples_has_no_interval(n):
    summary = summarise([3.0] * n)
    assert summary.interval is None
    assert summary.median == (3.0 if n else None)


@pytest.mark.parametrize(("m", "n", "level"), [(5, 5, 1 - 2 * 4 / 252), (3, 4, 1 - 2 / 35), (3, 3, 0.9)])
def test_ratio_interval_has_the_level_of_the_exact_rank_test(m, n, level):
    assert ratio(range(1, m + 1), range(1, n + 1)).interval.level == pytest.approx(level)


def test_ratio_is_the_median_of_pairwise_ratios_and_turns_round():
    values, reference = [70.0, 71.0, 72.0, 69.0, 74.0], [100.0, 101.0, 98.0, 103.0, 99.0]
    found, back = ratio(values, reference), ratio(reference, values)
    median = np.median([value / other for value in values for other in reference])
    assert found.value == pytest.approx(median) and found.loss_percent == pytest.approx((1 - median) * 100)
    turned = (1 / back.value, 1 / back.interval.high, 1 / back.interval.low)
    assert (found.value, found.interval.low, found.interval.high) == pytest.approx(turned)
    assert (found.direction, back.direction, ratio(values, values).direction) == (-1, 1, 0)


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
        ([0.0, 1.0], [1.0], "not above zero"),
        ([1.0, 2.0], [1.0, 2.0, 3.0], "too few"),
    ],
)
def test_ratio_of_too_little_says_why(values, reference, why):
    result = ratio(values, reference)
    assert result.interval is None and result.direction == 0
    assert why in result.why


@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 6), (5, 5)])
def test_smallest_p_is_what_the_test_gives_when_nothing_overlaps(m, n):
    p = stats.mannwhitneyu(np.arange(m) - 100.0, np.arange(n), method="exact").pvalue
    assert smallest_p(m, n) == pytest.approx(p)
    assert smallest_p(0, n) == 1


@pytest.mark.parametrize(("n", "family", "within"), [(5, 6, True), (5, 7, False), (4, 1, True), (3, 1, False)])
def test_few_samples_carry_a_small_family_only(n, family, within):
    assert reachable(n, n, family) is within


# comparisons


def enumerated_p(values, reference):
    """The two-sided p of the rank-sum test from every way in which the samples could have fallen."""
    ranks = stats.rankdata([*values, *reference])
    n = len(values)
    sums = np.array([sum(ranks[list(chosen)]) for chosen in combinations(range(len(ranks)), n)])
    seen = sum(ranks[:n])
    return min(1.0, 2 * min(np.mean(sums <= seen + 1e-9), np.mean(sums >= seen - 1e-9)))


@unhurried
@given(st.lists(COARSE, min_size=4, max_size=6), st.lists(COARSE, min_size=4, max_size=6))
def test_p_counts_every_way_the_samples_could_have_fallen_ties_or_not(values, reference):
    p = compare(values, reference)
    assert p == pytest.approx(enumerated_p(values, reference))
    assert p >= smallest_p(len(values), len(reference)) - 1e-12
    assert compare(reference, values) == pytest.approx(p)


def test_p_of_many_tied_samples_is_drawn_alike_each_time():
    """Of drawn orders no p is below two of all that are drawn."""
    values, reference = [1.0, 2.0, 2.0, 3.0] * 4, [2.0, 3.0, 3.0, 4.0] * 4
    usual = stats.mannwhitneyu(values, reference, method="asymptotic").pvalue
    p = compare(values, reference)
    comparisons._tied_p.cache_clear()
    assert compare(values, reference) == p == pytest.approx(usual, abs=0.005)
    assert compare([1.0] * 16, [2.0] * 16) == pytest.approx(2 / 10_000, rel=1e-6)


@pytest.mark.parametrize(("m", "n"), [(0, 5), (2, 7)])
def test_where_the_test_cannot_reach_significance_there_is_no_p(m, n):
    assert compare(range(m), range(100, 100 + n)) is None


def test_holm_and_benjamini_hochberg_as_worked_out_by_hand():
    ps = [0.01, 0.04, 0.03, 0.005]
    assert adjust_primary(ps) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_primary([0.7, 0.6]) == [1, 1]
    assert adjust_exploratory(ps) == pytest.approx([0.02, 0.04, 0.04, 0.02])


def test_what_has_no_p_counts_in_a_declared_family_only():
    assert adjust_primary([0.02, None]) == [pytest.approx(0.04), None]
    assert adjust_exploratory([0.02, None]) == [pytest.approx(0.02), None]
    assert adjust_primary([]) == adjust_exploratory([]) == []


# series


@unhurried
@given(st.lists(COARSE, min_size=5, max_size=6))
def test_trend_counts_every_order_ties_or_not(values):
    def rises(order):
        return sum(np.sign(later - sooner) for sooner, later in combinations(order, 2))

    every = np.array([rises(order) for order in permutations(values)])
    seen = rises(values)
    found = trend(values)
    assert found.p == pytest.approx(min(1, 2 * min(np.mean(every <= seen), np.mean(every >= seen))))
    assert np.sign(found.tau) == np.sign(seen) == -np.sign(trend(values[::-1]).tau)


@pytest.mark.parametrize(("n", "least"), [(0, "1"), (4, "0.083")])
def test_too_few_samples_have_no_trend(n, least):
    found = trend([float(i) for i in range(n)])
    assert (found.tau, found.p, found.why) == (None, None, f"{n} samples are too few: p can be no lower than {least}")


def test_a_sample_far_off_is_flagged_with_its_reason_and_nothing_else_is():
    assert outliers([100.0, 101.0, 99.0, 100.5, 60.0]) == [
        (4, "40.0% below the median, 27 times the usual scatter (cut: 18.5)")
    ]
    assert outliers([100.0, 101.0, 99.0, 100.5, 103.0]) == []
    assert outliers([360.0, 341.0, 20.0]) == [], "three samples say too little of their scatter"
    assert [index for index, _ in outliers([360.0, 359.0, 20.0])] == [2]
    assert outliers([100.0, 100.001, 99.999, 100.0005, 99.3]) == [], (
        "0.7% changes no answer, however little the others scatter"
    )


@pytest.mark.parametrize(
    ("n", "cut"),
    [
        *((3, 120), (4, 18.5), (5, 18.5), (6, 11), (7, 11), (8, 8.5), (9, 8.5), (10, 7.2), (14, 7.2)),
        *((15, 6.2), (19, 6.2), (20, 5.5), (29, 5.5), (30, 5)),
    ],
)
def test_the_cut_depends_on_the_number_of_samples(n, cut):
    """The last sample lies just within and just beyond the cut; the others are even steps, and scatter is theirs."""
    steps = list(range(n - 1))
    with_far = np.array([*steps, math.inf])
    median = np.median(with_far)
    scatter = np.median(np.abs(with_far - median)) / 0.6745
    assert outliers([*steps, median + (cut - 0.01) * scatter]) == []
    ((index, why),) = outliers([*steps, median + (cut + 0.01) * scatter])
    assert index == n - 1 and why.endswith(f"above the median, {cut + 0.01:.0f} times the usual scatter (cut: {cut:g})")


@pytest.mark.parametrize("values", [[], [1.0, 50.0], [1.0, 1.0, 50.0], [5.0, 5.0, 5.0, 5.1, 90.0]])
def test_where_scatter_is_not_known_nothing_is_flagged(values):
    assert outliers(values) == []


def test_a_point_of_change_is_found_where_it_is_and_by_chance_as_often_as_it_says():
    levels = change([3.0, 1.0, 2.0, 5.0, 4.0, 13.0, 12.0, 14.0, 11.0, 15.0])
    assert levels.after == 5 and levels.p == pytest.approx(2 * math.factorial(5) ** 2 / math.factorial(10), rel=0.4)
    assert (change([1.0] * 9).after, change([1.0] * 9).p) == (None, 1.0)
    assert change([1.0] * 7).p is None
    draw = random.Random(3)
    found = [change([draw.random() for _ in range(9)]).p < 0.05 for _ in range(80)]
    assert sum(found) <= 9, "5% of 80, and two standard errors and a half"


def test_where_all_of_one_rate_changed_alike_that_is_told_from_the_noise_of_the_other():
    writes, reads = np.random.default_rng(3).normal(0, 0.01, (2, 20))
    _, whole = exchanged([writes, reads - 0.7], [np.repeat(range(4), 5)] * 2)
    assert whole[0] > 0.05 and whole[1] < 0.001
