"""Which cells to measure where time is short, and what the others must be.

What rates are where nothing was measured: a Gaussian process over the axes of a study, and how sure it is.
Rates are taken as logarithms, so errors are shares. Four parts add up:

- a smooth surface over all axes, each with its own length scale;
- what a state has for itself (its layout, the visit), smooth over the transfer size alone;
- what a group of alike cells has for itself;
- the noise of a sample.

Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2 and 5.4.2.

What to measure next: visit after visit the state, and the cells in it, that give the most certainty for each second
(fsage.run.adaptive). It ends when all rates are known as precisely as requested, or the time is over.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern

Array = NDArray[np.float64]

LEVEL = 0.95
Z = 1.959964
"""Two-sided normal quantile of LEVEL."""
TYPICAL_NOISE = 0.03
"""Standard deviation of a log rate, as good as NOISE_WEIGHT samples: until there are repeated ones."""
NOISE_WEIGHT = 2
"""Samples that TYPICAL_NOISE counts as."""
OWN_NOISE_WEIGHT = 8
"""Samples that the noise of all cells counts as, beside a cell's own."""
CLIPPED = 3.0
"""Deviations count as at most so many standard deviations: once in a while a sample is very slow."""
OF_MEDIAN = 1.4
"""Variance of the median of three to five samples over that of their mean (normal noise; pi/2 for many)."""
FEW = 3
"""Samples; a median of fewer is not safe from one that is very slow."""
APART = 1e-3
"""Length scale, in ranges of an axis, at which neighbouring states have nothing in common."""
ENOUGH_STATES = 5
"""Least number of states held out, one after another, for a judgement of the model."""


@dataclass(frozen=True)
class Points:
    """Where rates are wanted. `axes`: a row a group of alike cells, state axes first, the transfer size last, each
    from 0 to 1; `state`: the number of its state, by row.
    """

    axes: Array
    state: NDArray[np.int_]


@dataclass(frozen=True)
class Samples:
    """Log rates that were measured, by group: their median, as a report has it, and number (NaN and 0 where none),
    and the noise of one.

    The noise of a group is its own as far as its few samples tell, else that of all: variances are drawn towards the
    pooled one, which counts as OWN_NOISE_WEIGHT samples more.
    """

    median: Array
    count: NDArray[np.int_]
    noise: Array

    @classmethod
    def of_groups(cls, groups: list[list[float]]) -> Samples:
        """From the log rates of each group."""
        count = np.array(list(map(len, groups)))
        medians = np.full(len(groups), np.nan)
        apart: list[Array] = []
        for number, group in enumerate(groups):
            deviations = np.zeros(0)
            if group:
                medians[number] = np.median(group)
                deviations = np.sort(np.abs(np.subtract(group, medians[number])))
            apart.append(deviations[len(group) % 2 :])  # an odd number's median is one of them
        every = np.concatenate(apart)
        usual = 0.0
        if len(every):
            usual = (float(np.median(every)) / norm.ppf(0.75)) ** 2
        pooled = (len(every) * usual + NOISE_WEIGHT * TYPICAL_NOISE**2) / (len(every) + NOISE_WEIGHT)
        squares = np.array([np.minimum(deviations**2, CLIPPED**2 * pooled).sum() for deviations in apart])
        freedom = np.maximum(0, count - 1)
        own = (squares + OWN_NOISE_WEIGHT * pooled) / (freedom + OWN_NOISE_WEIGHT)
        return cls(medians, count, np.sqrt(own))

    @property
    def variance(self) -> Array:
        """Variance of the medians."""
        efficiency = np.where(self.count < FEW, 1.0, OF_MEDIAN)
        return efficiency * self.noise**2 / np.maximum(self.count, 1)


@dataclass(frozen=True)
class Belief:
    """What is known of all groups: mean and covariance of their log rates, and the noise of a sample of each.

    `stretch`: by how much each group's interval is wider than the model's own, for what was held out lay further off
    than it said: whole states for groups of a state that nobody visited, else groups alone. `held_out`: how many were,
    and `coverage`, the share that lay in their (stretched) intervals.
    """

    mean: Array
    covariance: Array
    noise: Array
    stretch: Array
    held_out: int = 0
    coverage: float = float("nan")
    kernel: Kernel | None = None
    """The fitted parameters, where the next fit begins."""

    @property
    def half_width(self) -> Array:
        """Half of each group's interval at LEVEL, as a share of its rate."""
        return np.expm1(Z * self.stretch * np.sqrt(np.clip(np.diag(self.covariance), 0, None)))

    def after(self, taken: Mapping[int, int]) -> Belief:
        """What will be known when so many samples of each group were taken, whatever they say: their number counts."""
        groups = list(taken)
        noise = np.diag(self.noise[groups] ** 2 / list(taken.values()))
        shared = self.covariance[:, groups]
        gained = shared @ np.linalg.solve(self.covariance[np.ix_(groups, groups)] + noise, shared.T)
        return replace(self, covariance=self.covariance - gained)


def prior(points: Points, noise: float = TYPICAL_NOISE) -> Belief:
    """What may be expected before anything was measured: for what a budget buys, not for results."""
    covariance = _kernel(points.axes.shape[1])(points.axes)
    groups = len(points.axes)
    return Belief(np.zeros(groups), covariance, np.full(groups, noise), np.ones(groups))


def believe(points: Points, samples: Samples, before: Belief | None = None) -> Belief:
    """Fit the surface to what was measured, hold out each state and group in turn, and say what is known of all."""
    measured = samples.count > 0
    axes = points.axes[measured]
    noise = samples.variance[measured]
    centre = float(np.median(samples.median[measured]))
    values = samples.median[measured] - centre
    if before and before.kernel:
        first = before.kernel
    else:
        first = _kernel(points.axes.shape[1])
    model = _fit(first, noise, axes, values)
    doubted = np.where(samples.count[measured] < FEW, _doubted(model.kernel_(axes), noise, values), noise)
    if (doubted > noise).any():
        noise = doubted
        model = _fit(model.kernel_, noise, axes, values)
    mean, covariance = model.predict(points.axes, return_cov=True)
    stretch = np.ones(len(measured))
    inside = np.zeros(0, dtype=bool)
    visited = np.isin(points.state, points.state[measured])
    if len(set(points.state[measured].tolist())) >= ENOUGH_STATES:
        covariance_measured = model.kernel_(axes) + np.diag(noise)
        for parts, groups in ((points.state[measured], ~visited), (np.arange(len(values)), visited)):
            if groups.any():
                apart = _held_out(covariance_measured, values, parts)
                rank = min(len(apart), int(np.ceil((len(apart) + 1) * LEVEL)))
                stretch[groups] = max(1.0, float(np.sort(apart)[rank - 1]) / Z)
                inside = np.append(inside, apart <= Z * stretch[groups][0])
    if len(inside):
        coverage = float(np.mean(inside))
    else:
        coverage = float("nan")
    return Belief(mean + centre, covariance, samples.noise, stretch, len(inside), coverage, model.kernel_)


def _kernel(axes: int) -> Kernel:
    smooth = ConstantKernel(0.02, (1e-5, 4.0)) * Matern([0.7] * axes, (0.08, 20.0), nu=2.5)
    of_state = ConstantKernel(1e-4, (1e-8, 0.1)) * RBF(
        [*[APART] * (axes - 1), 1.0], [*[(APART, APART * 1.0001)] * (axes - 1), (0.2, 20.0)]
    )
    of_group = ConstantKernel(1e-4, (1e-8, 0.1)) * RBF(APART, "fixed")
    return smooth + of_state + of_group


def _fit(kernel: Kernel, noise: Array, axes: Array, values: Array) -> GaussianProcessRegressor:
    model = GaussianProcessRegressor(kernel, alpha=noise, random_state=0)
    with warnings.catch_warnings():  # a length scale at its bound: the surface is flat along that axis
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(axes, values)


def _doubted(covariance: Array, noise: Array, values: Array) -> Array:
    """Noise in which what lies far off from all the others say of it counts with its distance: more samples decide."""
    inverse = np.linalg.inv(covariance + np.diag(noise))
    variance = 1 / np.diag(inverse)
    squares = (inverse @ values * variance) ** 2
    return np.where(squares > CLIPPED**2 * variance, squares, noise)


def _held_out(covariance: Array, values: Array, parts: NDArray[np.int_]) -> Array:
    """By how many standard deviations each measured group lies off what all other `parts` say of it."""
    inverse = np.linalg.inv(covariance)
    weights = inverse @ values
    apart = np.empty(len(values))
    for part in np.unique(parts):
        in_part = np.flatnonzero(parts == part)
        spread = np.linalg.inv(inverse[np.ix_(in_part, in_part)])
        apart[in_part] = np.abs(spread @ weights[in_part]) / np.sqrt(np.diag(spread))
    return apart


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
    """The `wanted` groups that have a rate with an interval wider than ± `precision` (0.03: 3%)."""
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
        left = self.left
        costs = self.costs
        brought = costs.brings.get(number, {})
        beliefs = [belief.after(brought) if brought else belief for belief in self.beliefs]
        of_state = np.flatnonzero((self.state == number) & (left > 0))
        goals = np.array([(np.log1p(self.precision) / (Z * belief.stretch)) ** 2 for belief in beliefs])
        noise = np.array([belief.noise**2 for belief in beliefs])
        # By rate: the variance of each group, and its covariance with each of the state's.
        spread = np.array([np.diag(belief.covariance) for belief in beliefs])
        shared = np.array([belief.covariance[:, of_state] for belief in beliefs])
        start = self._short(np.array([np.diag(belief.covariance) for belief in self.beliefs]), goals)
        taken: dict[int, int] = {}
        spent = float(costs.reach[number])
        if spent > self.seconds:
            return None
        rate = (start - self._short(spread, goals)) / spent
        while True:
            options = []
            for place, group in enumerate(of_state.tolist()):
                if taken.get(group, 0) < left[group]:
                    column = shared[:, :, place]
                    after = spread - column**2 / (column[:, group] + noise[:, group])[:, None]
                    takes = spent + costs.sample[group]
                    options.append(((start - self._short(after, goals)) / takes, takes, place))
            if not options:
                break
            best, takes, place = max(options)
            if best <= rate or takes > self.seconds:
                break
            rate = best
            spent = takes
            group = int(of_state[place])
            taken[group] = taken.get(group, 0) + 1
            column = shared[:, :, place].copy()
            scale = (column[:, group] + noise[:, group])[:, None]
            spread -= column**2 / scale
            shared -= column[:, :, None] * (column[:, of_state] / scale)[:, None, :]
        if taken or brought:
            return (Visit(number, taken, spent), rate)
        return None

    def _short(self, variances: Array, goals: Array) -> float:
        """How far groups are from the goals, together: in the logarithm, so that the worst does not hide the others."""
        return float(np.log(np.maximum(variances, goals) / goals)[:, self.wanted].sum())
