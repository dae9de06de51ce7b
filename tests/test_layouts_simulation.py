"""Layouts as units against a population whose median is known, and pairs in which nothing differs.

The population is that of 120 counted layouts of 80.50: their log rate scatters by 5.1%, a sample by 0.7%.
A whole state has one layout, in which the fourth of five places has one jump (0.93%).
"""

import numpy as np
import pytest
from simulated import holds, stays_below

from fsage.statistics import Units, adjust_primary, compare, factor

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
        here, reference = (
            Units("layout", dict(enumerate((rate * np.exp(shared + 0.03 * rng.standard_normal((5, 1)))).ravel())))
            for rate in (0.8, 0.9)
        )
        held = factor(here, reference).interval
        hits += held.low <= 0.8 / 0.9 <= held.high
    row("ratio of pairs by seed", "5 layouts", "93.8%", hits, trials)
    assert holds(hits, trials, 0.9375)


def test_two_states_that_are_alike_over_layouts(row):
    """Two states of other draws without a difference: the exact rank-sum test of layouts, Holm over 4."""
    trials, hits, rng = 2000, 0, np.random.default_rng(4)
    for _ in range(trials):
        tests = [compare(units(aged(rng, 5, 2)[1]).values, units(aged(rng, 5, 2)[1]).values).p for _ in range(4)]
        hits += min(adjust_primary(tests)) <= 0.05
    row("A/A, other seeds, layouts as units", "5 layouts of 2, four tests", "at most 5%", hits, trials)
    assert stays_below(hits, trials, 0.05)


def test_rewrites_of_one_layout_call_other_seeds_a_change(row):
    """What fsage did: five rewrites of one layout in each run."""
    trials, hits, rng = 2000, 0, np.random.default_rng(5)
    for _ in range(trials):
        runs = [measured(rng, np.repeat(aged(rng, 1, 1)[0], 5)).tolist() for _ in range(2)]
        hits += compare(*runs).p <= 0.05
    row("WRONG: A/A, other seeds, rewrites as units", "5 rewrites", "at most 5%", hits, trials)
    assert hits > 0.7 * trials
