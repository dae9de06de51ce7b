"""Layouts as units against a population whose median is known, and pairs in which nothing differs.

Two tests draw from the layouts of Series 1 that were counted, 20 of each of 56 states. In the others
the population is that of 120 counted layouts of 80.50: their log rate scatters by 5.1%, a sample by 0.7%.
A whole state has one layout, in which the fourth of five places has one jump (0.93%).
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from simulated import holds, stays_below

from fsage.statistics import Units, adjust_primary, compare, exchanged, factor, median_interval

pytestmark = pytest.mark.long
BETWEEN, NOISE, LOSS = 0.051, 0.007, 0.18
WHOLE = np.array([1, 1, 1, 1 / 1.0093, 1])


def aged(rng, layouts, places, change=1.0):
    """The rate of each layout (bytes over the time of its places), and the rates at its places."""
    blocks = (1 - LOSS) * np.exp(BETWEEN * rng.standard_normal((layouts, places)))
    return blocks, measured(rng, blocks, change)


def measured(rng, blocks, change=1.0):
    """The same blocks, measured once more."""
    return change * blocks * np.exp(NOISE * rng.standard_normal(np.shape(blocks)))


def units(rates):
    """Layouts as units."""
    return Units("layout", dict(enumerate((1 / (1 / rates).mean(1)).tolist())))


def whole(rng):
    """The places of the one layout of a whole state."""
    return Units("place", dict(enumerate(measured(rng, WHOLE).tolist())))


@pytest.mark.parametrize(("layouts", "places"), [(5, 1), (5, 2), (6, 2), (9, 1), (9, 2), (12, 1)])
def test_the_interval_holds_the_median_of_the_population(row, layouts, places):
    trials, rng = 4000, np.random.default_rng(layouts * places)
    blocks = (1 - LOSS) * np.exp(BETWEEN * rng.standard_normal((200_000, places)))
    truth = float(np.median(1 / (1 / blocks).mean(1)))
    found = [factor(units(aged(rng, layouts, places)[1]), whole(rng)) for _ in range(trials)]
    hits = sum(ratio.interval.low <= truth <= ratio.interval.high for ratio in found)
    width = np.median([ratio.interval.high / ratio.interval.low - 1 for ratio in found])
    level = found[0].interval.level
    row("median over layouts", f"{layouts} layouts of {places}, width {width:.1%}", f"{level:.1%}", hits, trials)
    assert holds(hits, trials, level)


def test_pairs_of_the_same_draws_hold_their_ratio(row):
    """Two states of one seed share a part of what makes a layout fast."""
    trials, hits, rng = 4000, 0, np.random.default_rng(3)
    for _ in range(trials):
        shared = 0.04 * rng.standard_normal((5, 1))
        values, reference = (
            Units("layout", dict(enumerate((rate * np.exp(shared + 0.03 * rng.standard_normal((5, 1)))).ravel())))
            for rate in (0.8, 0.9)
        )
        interval = factor(values, reference).interval
        hits += interval.low <= 0.8 / 0.9 <= interval.high
    row("ratio of pairs by seed", "5 layouts", "93.8%", hits, trials)
    assert holds(hits, trials, 0.9375)


def test_two_states_that_are_alike_over_layouts(row):
    """Two states of other draws without a difference: the exact rank-sum test of layouts, Holm over 4."""
    trials, hits, rng = 2000, 0, np.random.default_rng(4)
    for _ in range(trials):
        tests = [compare(units(aged(rng, 5, 2)[1]).values, units(aged(rng, 5, 2)[1]).values) for _ in range(4)]
        hits += min(adjust_primary(tests)) <= 0.05
    row("A/A, other seeds, layouts as units", "5 layouts of 2, four tests", "at most 5%", hits, trials)
    assert stays_below(hits, trials, 0.05)


def test_rewrites_of_one_layout_call_other_seeds_a_change(row):
    """What fsage did: five rewrites of one layout in each run."""
    trials, hits, rng = 2000, 0, np.random.default_rng(5)
    for _ in range(trials):
        runs = [measured(rng, np.repeat(aged(rng, 1, 1)[0], 5)).tolist() for _ in range(2)]
        hits += compare(*runs) <= 0.05
    row("WRONG: A/A, other seeds, rewrites as units", "5 rewrites", "at most 5%", hits, trials)
    assert hits > 0.7 * trials


@pytest.fixture(scope="module")
def counted():
    """Computed seconds of the counted layouts, an array a state."""
    rows = pd.read_parquet(Path(__file__).parents[1] / "docs/data/series1_counts.parquet")
    of_states = [part["computed_seconds"].to_numpy() for _, part in rows.groupby("state") if len(part) == 30]
    assert len(of_states) == 56
    return of_states


def test_five_counted_layouts_hold_the_median_of_all_that_were_counted(row, counted):
    trials, hits, rng = 40, 0, np.random.default_rng(6)
    for seconds in counted:
        for _ in range(trials):
            interval = median_interval(rng.choice(seconds, 5).tolist())
            hits += interval.low <= np.median(seconds) <= interval.high
    row("median of counted layouts", "5 of 30, 56 states", "at least 93.8%", hits, trials * len(counted))
    assert hits >= 0.9375 * trials * len(counted) or holds(hits, trials * len(counted), 0.9375)


def test_two_runs_of_other_counted_layouts_give_no_alarm(row, counted):
    """Nothing changed; each run has five layouts of its own, measured once with the noise of a sample."""
    trials, hits, rng = 20, 0, np.random.default_rng(7)
    for seconds in counted:
        for _ in range(trials):
            drawn = measured(rng, rng.permutation(seconds)[:10])
            hits += compare(drawn[:5].tolist(), drawn[5:].tolist()) <= 0.05
    row("A/A, other counted layouts", "5 against 5", "at most 5%", hits, trials * len(counted))
    assert stays_below(hits, trials * len(counted), 0.05)


STATES, PAIRS = 64, 5
ROW = slice(0, 8 * PAIRS)


@pytest.mark.parametrize(
    ("what", "where", "change", "trials"),
    [
        ("nothing", slice(0, 0), 0.0, 150),
        ("all, 0.3%", slice(None), -0.003, 40),
        ("a row of 8, 2%", ROW, -0.02, 40),
        ("one state, 3%", slice(0, PAIRS), -0.03, 40),
    ],
)
def test_the_test_of_the_plane_has_its_level_and_its_power(row, what, where, change, trials):
    """Two runs in the same blocks: 64 states of 5 pairs, reads and writes, a pair's noise that of two samples."""
    alarms, rng = 0, np.random.default_rng(8)
    groups = np.repeat(np.arange(STATES), PAIRS)
    for _ in range(trials):
        logs = [NOISE * np.sqrt(2) * rng.standard_normal(STATES * PAIRS) for _ in range(2)]
        logs[0][where] += change
        of_groups, whole = exchanged(logs, [groups, groups])
        alarms += min(min(map(np.min, of_groups)), *whole) <= 0.05
    row("plane, paired", f"changed: {what}", "at most 5%" if not change else "power", alarms, trials)
    if change:
        assert alarms >= 0.7 * trials
    else:
        assert stays_below(alarms, trials, 0.05)
