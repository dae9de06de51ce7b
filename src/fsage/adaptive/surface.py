"""What rates are where nothing was measured: a Gaussian process over the axes of a study, and how sure it is.

Rates are taken as logarithms, so errors are shares. Three parts add up: a smooth surface over all axes, each with its
own length scale; what a state has for itself (its layout, the visit), smooth over the transfer size alone; and the
noise of a sample. (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2 and 5.4.2.)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
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
APART = 1e-3
"""Length scale, in ranges of an axis, at which neighbouring states have nothing in common."""
ENOUGH_STATES = 5
"""As many states held out, one after another, are needed to say anything of the model."""


@dataclass(frozen=True)
class Points:
    """Where rates are wanted. `axes`: a row a group of alike cells, state axes first, the transfer size last, each
    from 0 to 1; `state`: the number of its state, by row.
    """

    axes: Array
    state: NDArray[np.int_]


@dataclass(frozen=True)
class Samples:
    """Log rates that were measured, by group: their mean and number (NaN and 0 where none), and the noise of one.

    The noise of a group is its own as far as its few samples tell, else that of all: variances are drawn towards the
    pooled one, which counts as OWN_NOISE_WEIGHT samples more.
    """

    mean: Array
    count: NDArray[np.int_]
    noise: Array

    @classmethod
    def of(cls, groups: list[list[float]]) -> Samples:
        """From the log rates of each group."""
        squares = np.array([float(np.var(one)) * len(one) if len(one) > 1 else 0.0 for one in groups])
        freedom = np.array([max(0, len(one) - 1) for one in groups])
        pooled = (squares.sum() + NOISE_WEIGHT * TYPICAL_NOISE**2) / (freedom.sum() + NOISE_WEIGHT)
        own = (squares + OWN_NOISE_WEIGHT * pooled) / (freedom + OWN_NOISE_WEIGHT)
        means = [float(np.mean(one)) if one else np.nan for one in groups]
        return cls(np.array(means), np.array([len(one) for one in groups]), np.sqrt(own))


@dataclass(frozen=True)
class Belief:
    """What is known of all groups: mean and covariance of their log rates, and the noise of a sample of each.

    `stretch`: by how much intervals are wider than the model's own, for held-out states lay further off than it said.
    `held_out`: how many groups were held out with their states, and the share that lay in their (stretched) intervals.
    """

    mean: Array
    covariance: Array
    noise: Array
    stretch: float = 1.0
    held_out: int = 0
    coverage: float = float("nan")
    kernel: Kernel | None = None
    """As it was fitted: where the next fit, with a few samples more, begins."""

    @property
    def half_width(self) -> Array:
        """Of each group's interval at LEVEL, as a share of its rate."""
        return np.expm1(Z * self.stretch * np.sqrt(np.clip(np.diag(self.covariance), 0, None)))

    def after(self, taken: Mapping[int, int]) -> Belief:
        """What will be known when so many samples of each group were taken, whatever they say: their number counts."""
        groups = list(taken)
        noise = np.diag([self.noise[group] ** 2 / taken[group] for group in groups])
        shared = self.covariance[:, groups]
        gained = shared @ np.linalg.solve(self.covariance[np.ix_(groups, groups)] + noise, shared.T)
        return replace(self, covariance=self.covariance - gained)


def prior(points: Points, noise: float = TYPICAL_NOISE) -> Belief:
    """What may be expected before anything was measured: for what a budget buys, not for results."""
    covariance = _kernel(points.axes.shape[1])(points.axes)
    return Belief(np.zeros(len(points.axes)), covariance, np.full(len(points.axes), noise))


def believe(points: Points, samples: Samples, before: Belief | None = None) -> Belief:
    """Fit the surface to what was measured, hold out each state in turn, and say what is known of all groups."""
    there = samples.count > 0
    axes, noise = points.axes[there], samples.noise[there] ** 2 / samples.count[there]
    centre = float(np.mean(samples.mean[there]))
    values = samples.mean[there] - centre
    first = before.kernel if before and before.kernel else _kernel(points.axes.shape[1])
    model = GaussianProcessRegressor(first, alpha=noise, random_state=0)
    with warnings.catch_warnings():  # a length scale at its bound: the surface is flat along that axis
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(axes, values)
    mean, covariance = model.predict(points.axes, return_cov=True)
    apart = _held_out(model.kernel_(axes) + np.diag(noise), values, points.state[there])
    stretch, coverage = 1.0, float("nan")
    if len(set(points.state[there].tolist())) >= ENOUGH_STATES:
        rank = min(len(apart), int(np.ceil((len(apart) + 1) * LEVEL)))
        stretch = max(1.0, float(np.sort(apart)[rank - 1]) / Z)
        coverage = float(np.mean(apart <= Z * stretch))
    return Belief(mean + centre, covariance, samples.noise, stretch, len(apart), coverage, model.kernel_)


def _kernel(axes: int) -> Kernel:
    smooth = ConstantKernel(0.02, (1e-5, 4.0)) * Matern([0.7] * axes, (0.08, 20.0), nu=2.5)
    own = ConstantKernel(1e-4, (1e-8, 0.1)) * RBF(
        [*[APART] * (axes - 1), 1.0], [*[(APART, APART * 1.0001)] * (axes - 1), (0.2, 20.0)]
    )
    return smooth + own


def _held_out(covariance: Array, values: Array, state: NDArray[np.int_]) -> Array:
    """By how many standard deviations each measured group lies off what all other states say of it."""
    inverse = np.linalg.inv(covariance)
    weights = inverse @ values
    apart = np.empty(len(values))
    for one in np.unique(state):
        mine = np.flatnonzero(state == one)
        spread = np.linalg.inv(inverse[np.ix_(mine, mine)])
        apart[mine] = np.abs(spread @ weights[mine]) / np.sqrt(np.diag(spread))
    return apart
