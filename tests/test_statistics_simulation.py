"""Every estimator against data whose truth is known: does a level, an error rate or a power hold as printed?

The rows of the table that these tests fill stand in pytest's summary (conftest.py). What is drawn is seeded; a rate
may miss its claim by what the simulation itself leaves open, which for a run of this many trials is little enough
that a wrong level is caught: the last tests show it.
"""

import math

import numpy as np
import pytest
from simulated import (
    DISTRIBUTIONS,
    ERRORS,
    coarse,
    heavy_tailed,
    holds,
    lognormal,
    stays_below,
)
from tiers import first_of, first_row_of

from fsage.statistics import (
    adjust_exploratory,
    adjust_primary,
    compare,
    median_interval,
    outliers,
    ratio,
    reachable,
    trend,
)


def covered(intervals, truth):
    return sum(interval.low <= truth <= interval.high for interval in intervals)


# intervals


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
@pytest.mark.parametrize("n", [5, 20])
def test_coverage_of_the_median_interval(row, n, draw):
    trials = 10_000
    intervals = [median_interval(values) for values in draw(np.random.default_rng(n), (trials, n))]
    hits, level = covered(intervals, 1.0), intervals[0].level
    row("interval of the median", f"n={n}, {draw.__name__}", f"{level:.2%}", hits, trials)
    assert holds(hits, trials, level)


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
@pytest.mark.parametrize(("m", "n"), [(5, 5), (3, 6)])
def test_coverage_of_the_ratio_interval(row, m, n, draw):
    trials, rng = 2000, np.random.default_rng(m)
    pairs = zip(0.7 * draw(rng, (trials, m)), draw(rng, (trials, n)), strict=True)
    intervals = [ratio(*pair).interval for pair in pairs]
    hits, level = covered(intervals, 0.7), intervals[0].level
    row("interval of the ratio", f"n={m}+{n}, {draw.__name__}", f"{level:.2%}", hits, trials)
    assert holds(hits, trials, level)


# comparisons


def false_alarms(rng, trials, family, n, adjust):
    """Reports of A/A data in which any comparison is significant; one reference for every two, as in a study."""
    alarms = 0
    for _ in range(trials):
        samples = lognormal(rng, (family + family // 2, n))
        references = samples[family:]
        ps = [compare(samples[i], references[i // 2]) for i in range(family)]
        alarms += min(adjust(ps)) <= 0.05
    return alarms


@pytest.mark.parametrize(("family", "n"), [(4, 5), (12, 8)])
def test_false_alarms_among_the_primary_comparisons_of_a_report(row, family, n):
    trials = 1500
    hits = false_alarms(np.random.default_rng(n), trials, family, n, adjust_primary)
    row("any false alarm, primary", f"{family} comparisons, n={n}+{n}", "at most 5%", hits, trials)
    assert reachable(n, n, family)
    assert hits > 0 and stays_below(hits, trials, 0.05)


@pytest.mark.parametrize("affected", first_of(60, 0))
def test_false_discoveries_among_the_exploratory_comparisons_of_a_report(record_property, affected):
    trials, comparisons, rng = 150, 200, np.random.default_rng(affected)
    shares, found = [], 0
    for _ in range(trials):
        clean, states = np.exp(0.03 * rng.standard_normal(5)), np.exp(0.03 * rng.standard_normal((comparisons, 5)))
        states[:affected] *= 0.85
        ps = np.array(adjust_exploratory([compare(values, clean) for values in states]))
        significant = ps <= 0.05
        shares.append(significant[affected:].sum() / max(1, significant.sum()))
        found += significant[:affected].sum()
    mean, own = np.mean(shares), np.std(shares) / math.sqrt(trials)
    case = f"{comparisons} to one clean state, {affected} lose 15%, CoV 3%"
    record_property("simulated", ("false discoveries", case, "at most 5%", f"{mean:.1%} ± {2 * own:.1%}", f"{trials}"))
    assert mean <= 0.05 + ERRORS * own
    assert found >= 0.9 * affected * trials  # it finds what is there


# series


@pytest.mark.parametrize(("n", "ties"), first_row_of((12, True), (6, True), (36, False)))
def test_false_alarms_of_the_trend(row, n, ties):
    trials, rng = 1000, np.random.default_rng(n)
    values = heavy_tailed(rng, (trials, n))
    hits = sum(trend(value).p <= 0.05 for value in (coarse(values) if ties else values))
    row("false alarms, trend", f"n={n}{', tied' if ties else ''}", "at most 5%", hits, trials)
    assert hits > 0 and stays_below(hits, trials, 0.05)


@pytest.mark.parametrize("n", [3, 5, 14, 40])
def test_clean_groups_that_are_flagged(row, n):
    trials = 3000
    hits = sum(bool(outliers(values)) for values in lognormal(np.random.default_rng(n), (trials, n)))
    row("clean groups flagged", f"n={n}", "at most 1%", hits, trials)
    assert hits > 0 and stays_below(hits, trials, 0.01)


# the checks themselves


def test_a_wrong_level_would_be_caught():
    intervals = [median_interval(values) for values in lognormal(np.random.default_rng(5), (10_000, 5))]
    hits = covered(intervals, 1.0)
    assert holds(hits, 10_000, 0.9375)
    assert not holds(hits, 10_000, 0.95)  # what is usually printed
    assert not holds(hits, 10_000, 0.96875)  # one tail forgotten


def test_comparisons_without_adjustment_would_be_caught(row):
    hits = false_alarms(np.random.default_rng(8), 500, 12, 8, list)
    row("WRONG: no adjustment", "12 comparisons, n=8+8", "at most 5%", hits, 500)
    assert not stays_below(hits, 500, 0.05)
