"""What to measure next: the state, and the cells in it, that give the most certainty for each second.

Visit after visit to where most is learned, until all rates are known as precisely as requested, or the time is over.

When the model says so, it is put to the test: states that nobody visited are drawn, and what is measured there must lie
where it was predicted. Where it does not, the intervals get wider by that, and measuring continues.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fsage.adaptive.surface import Array, Belief, Points, Samples, Z, believe


@dataclass(frozen=True)
class Visit:
    """A state, and how many more samples of each of its groups, by number; what that takes."""

    state: int
    samples: dict[int, int]
    seconds: float


@dataclass(frozen=True)
class Costs:
    """Seconds: of a sample of each group, and of reaching a state, with what is measured there in any case.

    `brings`: of that, by state, how many samples it is of which groups (sentinels are cells like others).
    """

    sample: Array
    reach: Array
    brings: dict[int, dict[int, int]] = field(default_factory=dict)


def unknown(beliefs: Sequence[Belief], precision: float, wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of the groups that are `wanted` those of which any rate's interval is wider than ± `precision` (0.03: 3%)."""
    return wanted & np.any([belief.half_width > precision for belief in beliefs], axis=0)


@dataclass(frozen=True)
class Choice:
    """What the next visit is chosen by.

    `beliefs`: of each rate, over the same groups; `state`: each group's; `left`: how many samples may still be taken;
    `wanted`: which groups are to be known; `precision`: how well, as in `unknown`; `seconds`: in which a visit must
    end.
    """

    beliefs: Sequence[Belief]
    state: NDArray[np.int_]
    left: NDArray[np.int_]
    wanted: NDArray[np.bool_]
    costs: Costs
    precision: float
    seconds: float

    def best(self) -> Visit | None:
        """The visit that gains most a second; None where none is needed, or none ends in time.

        What a sample gains is how much nearer it brings all groups, its own and those that it tells of, to `precision`.
        """
        if not unknown(self.beliefs, self.precision, self.wanted).any():
            return None
        best = None
        gain_of_best = 0.0
        for number in np.unique(self.state[self.left > 0]):
            choice = self._best_of(int(number))
            if choice and choice[1] > gain_of_best:
                best, gain_of_best = choice
        return best

    def _best_of(self, number: int) -> tuple[Visit, float] | None:
        """The best visit of one state and its gain a second: sample after sample, as long as that rises."""
        beliefs = self.beliefs
        left = self.left
        costs = self.costs
        brought = costs.brings.get(number)
        if brought:
            beliefs = [belief.after(brought) for belief in beliefs]
        of_state = np.flatnonzero((self.state == number) & (left > 0))
        goals = [(np.log1p(self.precision) / (Z * belief.stretch)) ** 2 for belief in beliefs]
        spread = [np.diag(belief.covariance).copy() for belief in beliefs]
        shared = [belief.covariance[:, of_state].copy() for belief in beliefs]
        start = self._short([np.diag(belief.covariance) for belief in self.beliefs], goals)
        taken: dict[int, int] = {}
        spent = float(costs.reach[number])
        if spent > self.seconds:
            return None
        rate = (start - self._short(spread, goals)) / spent
        while open_ := [place for place, group in enumerate(of_state) if taken.get(int(group), 0) < left[group]]:
            options = []
            for place in open_:
                after = []
                for belief, variance, columns in zip(beliefs, spread, shared, strict=True):
                    column = columns[:, place]
                    after.append(variance - column**2 / (column[of_state[place]] + belief.noise[of_state[place]] ** 2))
                takes = spent + costs.sample[of_state[place]]
                options.append(((start - self._short(after, goals)) / takes, takes, place))
            best, takes, place = max(options)
            if best <= rate or takes > self.seconds:
                break
            rate = best
            spent = takes
            group = int(of_state[place])
            taken[group] = taken.get(group, 0) + 1
            for belief, variance, columns in zip(beliefs, spread, shared, strict=True):
                column = columns[:, place].copy()
                scale = column[group] + belief.noise[group] ** 2
                variance -= column**2 / scale
                columns -= np.outer(column, column[of_state]) / scale
        if taken or brought:
            return (Visit(number, taken, spent), rate)
        return None

    def _short(self, variances: Sequence[Array], goals: Sequence[Array]) -> float:
        """How far groups are from the goals, together: in the logarithm, so that the worst does not hide the others."""
        return sum(
            float(np.log(np.maximum(variance, goal) / goal)[self.wanted].sum())
            for variance, goal in zip(variances, goals, strict=True)
        )


TESTS = 4
"""So many states, one after another, must lie where they were predicted."""
SEED = 67005


class Study(Protocol):
    """What is explored. `left`: how many samples of each group may still be taken; `seconds`: what the time allows.

    `wanted`: which groups are to be known; of the others what is known helps.
    """

    @property
    def points(self) -> Points: ...
    @property
    def wanted(self) -> NDArray[np.bool_]: ...

    def samples(self) -> list[Samples]:
        """Of each rate, what was measured until now."""

    def left(self) -> NDArray[np.int_]: ...
    def costs(self) -> Costs: ...
    def seconds(self) -> float: ...
    def take(self, visit: Visit) -> None:
        """Measure it."""

    def say(self, beliefs: list[Belief]) -> None:
        """After each visit."""


@threadpool_limits.wrap(limits=1)  # on small matrices a second thread only waits
def explore(study: Study, precision: float) -> list[Belief]:
    """Measure until all rates are known within ± `precision`; what is known of each then."""
    draw = random.Random(SEED)
    beliefs = [believe(study.points, samples) for samples in study.samples()]
    stood = 0
    while True:
        visit = Choice(
            beliefs, study.points.state, study.left(), study.wanted, study.costs(), precision, study.seconds()
        ).best()
        tested = None
        if visit is None and stood < TESTS and not unknown(beliefs, precision, study.wanted).any():
            visit = tested = _test(study, draw)
        if visit is None:
            return beliefs
        study.take(visit)
        samples = study.samples()
        if tested:
            stood = stood + 1 if _stands(beliefs, samples, tested) else 0
        beliefs = [believe(study.points, sample, before) for sample, before in zip(samples, beliefs, strict=True)]
        study.say(beliefs)


def _test(study: Study, draw: random.Random) -> Visit | None:
    """One sample in a state that was not visited, if there is one and the time for it."""
    counts = study.samples()[0].count
    costs = study.costs()
    visited = set(study.points.state[counts > 0].tolist())
    groups = [
        group
        for group in np.flatnonzero(study.left() > 0).tolist()
        if study.points.state[group] not in visited
        and costs.reach[study.points.state[group]] + costs.sample[group] <= study.seconds()
    ]
    if not groups:
        return None
    group = draw.choice(groups)
    state = int(study.points.state[group])
    return Visit(state, {group: 1}, float(costs.reach[state] + costs.sample[group]))


def _stands(beliefs: list[Belief], samples: list[Samples], tested: Visit) -> bool:
    """Whether every rate that was measured lies where it was predicted, by the interval of one sample."""
    for belief, measured in zip(beliefs, samples, strict=True):
        for group in tested.samples:
            wide = Z * belief.stretch[group] * math.sqrt(belief.covariance[group, group] + belief.noise[group] ** 2)
            if measured.count[group] and abs(measured.median[group] - belief.mean[group]) > wide:
                return False
    return True
