"""What a disk charges, from how long reads took, where they lay and when: rate by place, a seek, drift, noise.

The time of a byte is 1 / rate(place) and a seek for each piece; all of it has a factor for the time of day (drift) and,
of each sample, a lognormal one (noise). Fullness has a factor too, which is 1 on a disk: so it is told apart from the
place, which moves with it. Least squares on logarithms; intervals by the tangent plane at the solution (Seber and Wild,
Nonlinear Regression, 2003, chapter 5), of the noise by chi squared. How often they hold is in the tests' table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
SINGULAR = 1e6  # of the scaled Jacobian's condition: above it two of the values cannot be told apart

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reads:
    """Samples, an array each: of one read at a time.

    s_per_byte: its duration over its bytes. position, position_sd: where these bytes lie, as shares of the device from
    its first block. seeks_per_byte: pieces over bytes. fullness: share of the capacity in use, 0 where the read went
    past the file system. hours: since some moment, of its beginning.
    """

    s_per_byte: Array
    position: Array
    position_sd: Array
    seeks_per_byte: Array
    fullness: Array
    hours: Array


@dataclass(frozen=True)
class Estimate:
    """A value with its interval."""

    value: float
    low: float
    high: float


class Inseparable(ValueError):
    """The samples cannot tell the values apart; the message names the two that move together."""


def recover(reads: Reads, level: float = LEVEL) -> Mapping[str, Estimate]:
    """What the disk charged: keys bytes_per_s, seek_s, outer_to_inner, drift_percent_per_hour, noise_cov, fullness.

    `fullness` is the factor on the time of a byte from empty to full. Raises Inseparable.
    """
    from scipy.optimize import least_squares
    from scipy.stats import chi2, t

    free = len(reads.s_per_byte) - len(_NAMES)
    if free < 1:
        raise Inseparable(f"{len(reads.s_per_byte)} reads are too few for {len(_NAMES)} values")
    observed = np.log(reads.s_per_byte)

    def residuals(theta: Array) -> Array:
        return np.asarray(observed - _expected(theta, reads))

    start = np.array([observed.min(), 0.1, 0.0, 0.0, 0.0])
    steps = reads.seeks_per_byte.max() / reads.s_per_byte.min() or 1.0
    start[2] = 0.1 / steps
    bounds = ([-np.inf, -5, 0, -100, -5], [np.inf, 0.98, np.inf, 100, 5])
    fit = least_squares(residuals, start, bounds=bounds, x_scale="jac", xtol=1e-12, ftol=1e-12)
    jacobian = fit.jac / np.maximum(np.linalg.norm(fit.jac, axis=0), 1e-300)
    _, singular, right = np.linalg.svd(jacobian, full_matrices=False)
    if singular[-1] * SINGULAR < singular[0]:
        pair = np.argsort(-np.abs(right[-1]))[:2]
        both = " and ".join(_NAMES[index] for index in sorted(pair))
        raise Inseparable(f"{both} move together in these samples and cannot be told apart")
    variance = float(fit.fun @ fit.fun) / free
    covariance = variance * np.linalg.inv(fit.jac.T @ fit.jac)
    half = t.ppf((1 + level) / 2, free) * np.sqrt(np.diag(covariance))
    low = fit.x - half
    high = fit.x + half
    spread = [variance * free / chi2.ppf(share, free) for share in ((1 + level) / 2, (1 - level) / 2)]

    def estimate(index: int, transform: Callable[[float], float]) -> Estimate:
        ends = sorted(transform(float(end)) for end in (low[index], high[index]))
        return Estimate(transform(float(fit.x[index])), *ends)

    def cov(square: float) -> float:
        return math.sqrt(math.expm1(square))

    return {
        "bytes_per_s": estimate(0, lambda log: math.exp(-log)),
        "seek_s": estimate(2, lambda seek: seek),
        "outer_to_inner": estimate(1, lambda slope: 1 / (1 - min(slope, 0.999))),
        "drift_percent_per_hour": estimate(3, lambda drift: 100 * drift),
        "noise_cov": Estimate(cov(variance), cov(spread[0]), cov(spread[1])),
        "fullness": estimate(4, math.exp),
    }


_NAMES = ("rate", "position", "seeks", "drift", "fullness")


def _expected(theta: Array, reads: Reads) -> Array:
    """Logarithm of the time of a byte. Of the places' spread the second moment counts: 1 / rate is no straight line."""
    log_first, slope, seek_s, drift, fullness = theta
    at = 1 - slope * reads.position
    transfer = np.exp(log_first) * (1 / at + slope**2 * reads.position_sd**2 / at**3)
    elapsed = np.maximum(1 + drift * reads.hours, 1e-3)
    return np.asarray(np.log(transfer + seek_s * reads.seeks_per_byte) - np.log(elapsed) + fullness * reads.fullness)
