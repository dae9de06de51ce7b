"""Samples whose truth is known, and whether a rate that was seen in a simulation agrees with what is claimed."""

import math

import numpy as np
from scipy.stats import norm

ERRORS = 3.3
"""Standard errors of the simulation within which a rate must lie: passed by chance alone in 999 of 1000."""


def lognormal(rng, shape):
    return np.exp(0.05 * rng.standard_normal(shape))


def heavy_tailed(rng, shape):
    """Logarithms of Student's t with two degrees of freedom: no variance, samples far off are common."""
    return np.exp(0.05 * rng.standard_t(2, shape))


def bimodal(rng, shape):
    """Three of ten samples are 26% slower than the others, as where a cell meets another's write-back."""
    slow = rng.random(shape) < 0.3
    return np.exp(0.02 * (rng.standard_normal(shape) - norm.ppf(2 / 7)) - 0.3 * slow)


def coarse(values):
    """As a clock of few ticks reads them: about one tick for the scatter, so that most samples are tied."""
    return np.round(values * 20) / 20


DISTRIBUTIONS = [lognormal, heavy_tailed, bimodal]  # the median of each is 1


def error(rate, trials):
    """The standard error of a rate that was seen in so many trials."""
    return math.sqrt(max(rate * (1 - rate), 1 / trials) / trials)


def holds(hits, trials, claim):
    """Whether a rate agrees with the claim."""
    return abs(hits / trials - claim) <= ERRORS * error(claim, trials)


def stays_below(hits, trials, claim):
    """Whether a rate is the claim or less."""
    return hits / trials <= claim + ERRORS * error(claim, trials)
