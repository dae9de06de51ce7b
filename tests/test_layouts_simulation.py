"""Layouts as units against a population whose median is known, and pairs in which nothing differs.

The population is that of 120 counted layouts of 80.50: their log rate scatters by 5.1%, a sample by 0.7%.
A whole state has one layout, in which the fourth of five places has one jump (0.93%).
"""

import numpy as np
import pytest
from simulated import holds, stays_below

from fsage.statistics import Units, exchanged, factor

pytestmark = pytest.mark.long
BETWEEN, NOISE, LOSS = 0.051, 0.007, 0.18
WHOLE = np.array([1, 1, 1, 1 / 1.0093, 1])


def layouts_of(rng, shape):
    """The rate at each place of so many layouts."""
    return (1 - LOSS) * np.exp(BETWEEN * rng.standard_normal(shape))


def measured(rng, blocks):
    """The same blocks, measured."""
    return blocks * np.exp(NOISE * rng.standard_normal(np.shape(blocks)))


def whole_layouts(rates):
    """The rate of each layout: bytes over the time of its places."""
    return 1 / (1 / rates).mean(1)


@pytest.mark.parametrize(("layouts", "places"), [(5, 1), (5, 2), (6, 2), (9, 2), (12, 1)])
def test_the_interval_holds_the_median_of_the_population(row, layouts, places):
    trials, rng = 4000, np.random.default_rng(layouts * places)
    truth = float(np.median(whole_layouts(layouts_of(rng, (200_000, places)))))
    found = []
    for _ in range(trials):
        ours = whole_layouts(measured(rng, layouts_of(rng, (layouts, places))))
        units = Units("layout", dict(enumerate(ours.tolist())))
        found.append(factor(units, Units("place", dict(enumerate(measured(rng, WHOLE).tolist())))))
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
