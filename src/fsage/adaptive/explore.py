"""Visit after visit to where most is learned, until all rates are known as precisely as requested, or the time is over.

When the model says so, it is put to the test: states that nobody visited are drawn, and what is measured there must lie
where it was predicted. Where it does not, the intervals get wider by that, and measuring continues.
"""

from __future__ import annotations

import math
import random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from fsage.adaptive.design import Choice, Costs, Visit, unknown
from fsage.adaptive.surface import Belief, Points, Samples, Z, believe

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
    counts, costs = study.samples()[0].count, study.costs()
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
