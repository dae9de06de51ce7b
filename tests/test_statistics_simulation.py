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
from statsmodels.stats.power import TTestIndPower
from tiers import first_of, first_row_of

from fsage.statistics import (
    adjust_exploratory,
    adjust_primary,
    compare,
    median_interval,
    outliers,
    ratio,
    reachable,
    summarise,
    trend,
)


def covered(intervals, truth):
    return sum(interval.low <= truth <= interval.high for interval in intervals)


# intervals


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
@pytest.mark.parametrize("n", [5, 9, 20])
def test_coverage_of_the_median_interval(row, n, draw):
    trials = 10_000
    intervals = [median_interval(values) for values in draw(np.random.default_rng(n), (trials, n))]
    hits, level = covered(intervals, 1.0), intervals[0].level
    row("interval of the median", f"n={n}, {draw.__name__}", f"{level:.2%}", hits, trials)
    assert holds(hits, trials, level)


@pytest.mark.parametrize("draw", DISTRIBUTIONS)
@pytest.mark.parametrize(("m", "n"), [(5, 5), (3, 6), (9, 12)])
def test_coverage_of_the_ratio_interval(row, m, n, draw):
    trials, rng = 4000, np.random.default_rng(m)
    pairs = zip(0.7 * draw(rng, (trials, m)), draw(rng, (trials, n)), strict=True)
    intervals = [ratio(*pair).interval for pair in pairs]
    hits, level = covered(intervals, 0.7), intervals[0].level
    row("interval of the ratio", f"n={m}+{n}, {draw.__name__}", f"{level:.2%}", hits, trials)
    assert holds(hits, trials, level)


def in_layouts(rng, trials, layouts, iterations):
    """Samples whose layouts differ by 3% and whose iterations in one scatter by 1%."""
    layout = rng.normal(0, 0.03, (trials, layouts, 1))
    return np.exp(layout + rng.normal(0, 0.01, (trials, layouts, iterations)))


@pytest.mark.parametrize("layouts", [5, 9])
def test_coverage_over_layouts(row, layouts):
    trials = 10_000
    medians = np.median(in_layouts(np.random.default_rng(layouts), trials, layouts, 5), axis=2)
    intervals = [summarise(values).interval for values in medians]
    hits, level = covered(intervals, 1.0), intervals[0].level
    row("interval over layouts", f"{layouts} layouts of 5 iterations", f"{level:.2%}", hits, trials)
    assert holds(hits, trials, level)


def wandering(rng, trials, moments):
    """The level of a machine that others load: a random walk of 2% a sample, at each of these moments."""
    return np.cumsum(0.02 * rng.standard_normal((trials, moments)), axis=1)


@pytest.mark.parametrize("turns", [True, False])
def test_alarms_on_a_machine_that_others_load(row, turns):
    """Two states that are alike, of five samples each: in turns (ABBA), as on a directory, or one after the other."""
    trials, rng = 2000, np.random.default_rng(6)
    of_b = np.array([0, 1, 1, 0] * 2 + [0, 1] if turns else [0] * 5 + [1] * 5, dtype=bool)
    samples = np.exp(wandering(rng, trials, 10) + 0.02 * rng.standard_normal((trials, 10)))
    alarms = sum(compare(sample[of_b], sample[~of_b]).p <= 0.05 for sample in samples)
    row(
        "false alarms under drift",
        "in turns" if turns else "one after the other",
        "5%" if turns else "",
        alarms,
        trials,
    )
    assert stays_below(alarms, trials, 0.05) == turns, "else the order of states would not matter"


# comparisons


def false_alarms(rng, trials, family, n, ties, adjust):
    """Reports of A/A data in which any comparison is significant; one reference for every two, as in a study."""
    alarms = 0
    for _ in range(trials):
        samples = lognormal(rng, (family + family // 2, n))
        if ties:
            samples = coarse(samples)
        references = samples[family:]
        ps = [compare(samples[i], references[i // 2]).p for i in range(family)]
        alarms += min(adjust(ps)) <= 0.05
    return alarms


@pytest.mark.parametrize(
    ("family", "n", "ties", "trials"),
    [
        (4, 5, False, 3000),
        (12, 8, False, 3000),
        # With ties a comparison takes a hundred times as long.
        pytest.param(4, 5, True, 1000, marks=pytest.mark.long),
    ],
)
def test_false_alarms_among_the_primary_comparisons_of_a_report(row, family, n, ties, trials):
    hits = false_alarms(np.random.default_rng(n), trials, family, n, ties, adjust_primary)
    case = f"{family} comparisons, n={n}+{n}{', tied' if ties else ''}"
    row("any false alarm, primary", case, "at most 5%", hits, trials)
    assert reachable(n, n, family)
    assert hits > 0 and stays_below(hits, trials, 0.05)


@pytest.mark.parametrize("affected", [0, 60])
def test_false_discoveries_among_the_exploratory_comparisons_of_a_report(record_property, affected):
    trials, comparisons, rng = 150, 200, np.random.default_rng(affected)
    shares, found = [], 0
    for _ in range(trials):
        clean, states = np.exp(0.03 * rng.standard_normal(5)), np.exp(0.03 * rng.standard_normal((comparisons, 5)))
        states[:affected] *= 0.85
        ps = np.array(adjust_exploratory([compare(values, clean).p for values in states]))
        significant = ps <= 0.05
        shares.append(significant[affected:].sum() / max(1, significant.sum()))
        found += significant[:affected].sum()
    mean, own = np.mean(shares), np.std(shares) / math.sqrt(trials)
    case = f"{comparisons} to one clean state, {affected} lose 15%, CoV 3%"
    record_property("simulated", ("false discoveries", case, "at most 5%", f"{mean:.1%} ± {2 * own:.1%}", f"{trials}"))
    assert mean <= 0.05 + ERRORS * own
    assert found >= 0.9 * affected * trials  # it finds what is there


@pytest.mark.parametrize("cov", [0.01, 0.03])
@pytest.mark.parametrize("loss", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("n", [5, 10])
def test_power_is_near_that_of_the_best_test(row, n, loss, cov):
    """The t test is the best for normal data; the rank test costs little, and goes no lower than its steps of p."""
    trials, rng = 1500, np.random.default_rng(n)
    slow, usual = (1 - loss) * (1 + cov * rng.standard_normal((trials, n))), 1 + cov * rng.standard_normal((trials, n))
    ps = np.array([compare(*pair).p for pair in zip(slow, usual, strict=True)])
    hits = int((ps <= 0.05).sum())
    four = int((4 * ps <= 0.05).sum())
    row("power", f"n={n}+{n}, loss {loss:.0%}, CoV {cov:.0%}", "alone", hits, trials)
    row("power", f"n={n}+{n}, loss {loss:.0%}, CoV {cov:.0%}", "first of 4", four, trials)
    attained = {5: 2 * 4 / 252, 10: 0.0433}[n]  # the largest step of p up to 5%
    effect = min(loss / cov, 4)  # in deviations; beyond, statsmodels knows no power, which is 1
    best = TTestIndPower().power(effect, n, attained)
    assert best - 0.09 <= hits / trials <= best + 0.03


# series


# What 36 samples without ties have, those of a state whose groups differ have too.
@pytest.mark.parametrize(("n", "ties"), first_row_of((6, True), (5, False), (12, True), (36, False)))
def test_false_alarms_of_the_trend(row, n, ties):
    trials, rng = 2000, np.random.default_rng(n)
    values = heavy_tailed(rng, (trials, n))
    hits = sum(trend(value).p <= 0.05 for value in (coarse(values) if ties else values))
    row("false alarms, trend", f"n={n}{', tied' if ties else ''}", "at most 5%", hits, trials)
    assert hits > 0 and stays_below(hits, trials, 0.05)


@pytest.mark.parametrize("drift", first_of(0, 0.02))
def test_trend_of_a_state_whose_groups_differ(row, drift):
    """35 cells in an order drawn at random, each over its group's mean, as the report's drift does it."""
    trials, hits, rng = 2000, 0, np.random.default_rng(7)
    for _ in range(trials):
        order = rng.permutation(35)
        values = np.exp(rng.normal(0, 0.01 * (1 + order // 5 % 3))) * (1 + drift * np.arange(35) / 34)
        in_groups = values[np.argsort(order)].reshape(7, 5)
        hits += trend((in_groups / in_groups.mean(axis=1, keepdims=True)).ravel()[order]).p <= 0.05
    claim = "power" if drift else "at most 5%"
    row("trend in a state", f"7 groups of 5, CoV 1-3%, drift {drift:.0%}", claim, hits, trials)
    assert hits > 0.3 * trials if drift else stays_below(hits, trials, 0.05)


@pytest.mark.parametrize("n", [3, 4, 5, 7, 10, 14, 20, 40])
def test_clean_groups_that_are_flagged(row, n):
    trials = 6000
    hits = sum(bool(outliers(values)) for values in lognormal(np.random.default_rng(n), (trials, n)))
    row("clean groups flagged", f"n={n}", "at most 1%", hits, trials)
    assert hits > 0 and stays_below(hits, trials, 0.01)


@pytest.mark.parametrize(("n", "least"), [(5, 0.4), (10, 0.95)])
def test_a_glaring_sample_is_flagged(row, n, least):
    values = 1 + 0.01 * np.random.default_rng(n).standard_normal((2000, n))
    values[:, 2] *= 0.8
    hits = sum(2 in dict(outliers(value)) for value in values)
    row("outlier of -20% flagged", f"n={n}, CoV 1%", "power", hits, 2000)
    assert hits / 2000 > least


# the checks themselves


def test_a_wrong_level_would_be_caught():
    intervals = [median_interval(values) for values in lognormal(np.random.default_rng(5), (10_000, 5))]
    hits = covered(intervals, 1.0)
    assert holds(hits, 10_000, 0.9375)
    assert not holds(hits, 10_000, 0.95)  # what is usually printed
    assert not holds(hits, 10_000, 0.96875)  # one tail forgotten


def test_iterations_taken_for_layouts_would_be_caught(row):
    pooled = in_layouts(np.random.default_rng(5), 2000, 5, 5).reshape(2000, 25)
    intervals = [median_interval(values) for values in pooled]
    hits, level = covered(intervals, 1.0), intervals[0].level
    row("WRONG: pooled over layouts", "5 layouts of 5 iterations, n=25", f"{level:.2%}", hits, 2000)
    assert not holds(hits, 2000, level)


def test_comparisons_without_adjustment_would_be_caught(row):
    hits = false_alarms(np.random.default_rng(8), 500, 12, 8, False, list)
    row("WRONG: no adjustment", "12 comparisons, n=8+8", "at most 5%", hits, 500)
    assert not stays_below(hits, 500, 0.05)
