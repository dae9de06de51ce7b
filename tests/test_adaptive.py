"""Where nothing was measured: predictions and their intervals against planted surfaces, and what is measured next."""

from __future__ import annotations

import numpy as np
import pytest
from tiers import first_row_of

from fsage.adaptive import Costs, Points, Samples, Visit, believe, prior, unknown
from fsage.run.adaptive import explore
from fsage.run.adaptive_run import levelled

SHARES = np.linspace(0, 1, 5)
SIZES = np.linspace(0, 1, 3)
STATES = [(a, b) for a in SHARES for b in SHARES]
POINTS = Points(np.array([[a, b, t] for a, b in STATES for t in SIZES]), np.repeat(np.arange(len(STATES)), len(SIZES)))
ITERATIONS, NOISE, PRECISION = 5, 0.01, 0.03
REACH_S, SAMPLE_S = 15.0, 3.0
WHOLE_S = len(STATES) * (REACH_S + len(SIZES) * ITERATIONS * SAMPLE_S)


def smooth(a, b, t):
    return 5.9 - 0.3 * a**2 * (0.5 + 0.5 * t) - 0.15 * a * b * t


def cliff(a, b, t):
    return smooth(a, b, t) - 0.25 * (a * (1 - 0.5 * b) > 0.5)


def ridge(a, b, t):
    return smooth(a, b, t) - 0.2 * np.exp(-((a - 0.6) ** 2 + (b - 0.4) ** 2) / 0.02)


class Planted:
    """A study of a surface that is known, taken as a real one is."""

    points = POINTS
    wanted = np.ones(len(POINTS.state), dtype=bool)

    def __init__(self, surface, seed, noise=NOISE, seconds=10 * WHOLE_S):
        self.draw, self.noise, self.whole = np.random.default_rng(seed), noise, seconds
        self.truth = np.array([surface(*place) for place in POINTS.axes])
        self.groups: list[list[float]] = [[] for _ in self.truth]
        self.spent = 0.0
        for state in (0, len(STATES) - len(SHARES), len(STATES) - 1):  # as a headline's states are
            group = state * len(SIZES) + len(SIZES) - 1
            self.take(Visit(state, {group: ITERATIONS}, REACH_S + ITERATIONS * SAMPLE_S))

    def samples(self):
        return [Samples.of_groups(self.groups)]

    def left(self):
        return np.array([ITERATIONS - len(group) for group in self.groups])

    def costs(self):
        return Costs(np.full(len(self.truth), SAMPLE_S), np.full(len(STATES), REACH_S))

    def seconds(self):
        return self.whole - self.spent

    def take(self, visit):
        assert visit.seconds == REACH_S + SAMPLE_S * sum(visit.samples.values()) <= self.seconds()
        for group, count in visit.samples.items():
            assert POINTS.state[group] == visit.state and count <= ITERATIONS - len(self.groups[group])
            self.groups[group] += list(self.truth[group] + self.draw.normal(0, self.noise, count))
        self.spent += visit.seconds

    def say(self, beliefs):
        pass


@pytest.fixture(scope="module")
def usual_s():
    """What the smooth surface costs where all of it is wanted."""
    study = Planted(smooth, 3)
    explore(study, PRECISION)
    return study.spent


@pytest.mark.long
@pytest.mark.parametrize(
    ("surface", "seconds", "least", "most"),
    first_row_of(
        (ridge, 10 * WHOLE_S, 0.93, 0.8),
        (smooth, 10 * WHOLE_S, 0.93, 0.4),
        (cliff, 10 * WHOLE_S, 0.93, 1.0),
        (cliff, 0.2 * WHOLE_S, 0.75, 0.2),
    ),
)
def test_planted_surfaces_are_known_within_what_was_asked_or_the_budget_ends_it(surface, seconds, least, most):
    """A fifth of the time is too little for a cliff."""
    inside, shares = [], []
    for seed in range(4):
        study = Planted(surface, seed, seconds=seconds)
        [belief] = explore(study, PRECISION)
        assert unknown([belief], PRECISION, study.wanted).any() == (seconds < WHOLE_S)
        inside.append(np.mean(np.abs(belief.mean - study.truth) <= np.log1p(belief.half_width)))
        shares.append(study.spent / WHOLE_S)
    said = (
        f"{surface.__name__}: {np.mean(inside):.1%} of rates in their intervals, in {np.mean(shares):.0%} of the time"
    )
    print(said)
    assert np.mean(inside) >= least and 0.1 < np.mean(shares) <= most, said


@pytest.mark.long
def test_noise_can_forbid_a_precision():
    study = Planted(smooth, 2, noise=0.2)
    [belief] = explore(study, 0.002)
    assert unknown([belief], 0.002, study.wanted).all() and max(study.left()) == 0, (
        "all was measured, and it is not enough"
    )


def test_what_samples_will_say_is_known_before_but_for_their_values():
    groups = [[smooth(*place)] * 2 if n % 7 == 0 else [] for n, place in enumerate(POINTS.axes)]
    belief = believe(POINTS, Samples.of_groups(groups))
    together = belief.after({5: 2, 40: 1, 70: 5})
    one_by_one = belief.after({5: 2}).after({40: 1}).after({70: 5})
    assert np.allclose(together.covariance, one_by_one.covariance)
    assert (np.diag(together.covariance) <= np.diag(belief.covariance) + 1e-12).all()
    assert together.half_width[70] < 0.5 * prior(POINTS).half_width[70]


def test_states_far_off_from_what_the_others_say_widen_every_interval():
    draw = np.random.default_rng(4)
    own = dict(zip(STATES, draw.permutation([0.0] * 20 + [0.4] * 5), strict=True))
    groups = [[smooth(*place) + own[tuple(place[:2])] + draw.normal(0, NOISE)] for place in POINTS.axes]
    unseen = POINTS.state % 8 == 5
    groups = [[] if new else group for group, new in zip(groups, unseen, strict=True)]
    belief = believe(POINTS, Samples.of_groups(groups))
    assert belief.stretch.min() >= 1 and len(set(belief.stretch[unseen])) == 1 == len(set(belief.stretch[~unseen]))
    assert belief.held_out == 2 * np.sum(~unseen), "with their states, and alone"
    assert 0.93 <= belief.coverage <= 1
    assert belief.half_width[unseen].min() > 5 * np.median(belief.half_width[~unseen])


def test_one_very_slow_sample_neither_widens_all_intervals_nor_bends_the_surface():
    draw = np.random.default_rng(8)
    groups = [[smooth(*place) + draw.normal(0, NOISE)] for place in POINTS.axes]
    usual = believe(POINTS, Samples.of_groups(groups))
    groups[37][0] -= 0.5
    belief = believe(POINTS, Samples.of_groups(groups))
    assert np.abs(belief.mean - usual.mean).max() < 0.03, "not by a tenth of what that sample is off"
    assert belief.half_width[37] > usual.half_width[37]
    assert np.median(belief.half_width) < 1.5 * np.median(usual.half_width)


@pytest.mark.long
def test_sentinels_come_with_a_state_and_may_be_all_that_is_needed(usual_s):
    sentinels = {}

    class WithSentinels(Planted):
        def samples(self):
            return [Samples.of_groups([own + sentinels.get(at, []) for at, own in enumerate(self.groups)])]

        def costs(self):
            usual = super().costs()
            groups = {state: state * len(SIZES) for state in range(len(STATES))}
            new = {state: {group: 2} for state, group in groups.items() if group not in sentinels}
            return Costs(usual.sample, usual.reach, new)

        def take(self, visit):
            group = visit.state * len(SIZES)
            sentinels.setdefault(group, list(self.truth[group] + self.draw.normal(0, NOISE, 2)))
            super().take(visit)

    study = WithSentinels(smooth, 3)
    [belief] = explore(study, PRECISION)
    assert not unknown([belief], PRECISION, study.wanted).any()
    assert np.mean(np.abs(belief.mean - study.truth) <= np.log1p(belief.half_width)) > 0.93
    assert study.spent < usual_s


def test_noise_is_of_each_cell_as_far_as_its_samples_tell():
    draw = np.random.default_rng(6)
    groups = [list(draw.normal(5, 0.05 if n == 0 else 0.01, 5)) for n in range(60)] + [[]]
    groups[1][0] -= 0.5
    noise = Samples.of_groups(groups).noise
    assert noise[1] < 0.02, "a sample was very slow once"
    assert noise[0] > 1.5 * np.median(noise), "one is noisier than the others"
    assert 0.009 < np.median(noise) < 0.015 and noise[-1] == pytest.approx(np.median(noise), rel=0.2)


def test_what_other_targets_measured_counts_without_their_level():
    own = [[1.0, 1.2], [], [3.0]]
    faster = [[1.6], [2.5], []]
    stranger = [[], [9.0], []]
    found = levelled(own, [faster, stranger])
    assert found == [[1.0, 1.2, pytest.approx(1.1)], [pytest.approx(2.0)], [3.0]], "0.5 more in what both measured"


def test_only_what_is_wanted_is_chosen_for(usual_s):
    study = Planted(smooth, 3)
    study.wanted = POINTS.axes[:, 0] < 0.3
    beliefs = explore(study, PRECISION)
    assert not unknown(beliefs, PRECISION, study.wanted).any()
    assert study.spent < usual_s
