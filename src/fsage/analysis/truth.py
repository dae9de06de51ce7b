"""What was planted in a modelled disk, beside what the reads of a study recover of it: the proof of the method.

What a disk charges follows from how long reads took, where they lay and when: rate by place, a seek, drift, noise. The
time of a byte is 1 / rate(place) and a seek for each piece. All of it has a factor for the time of day (drift), and
each sample has a lognormal one (noise). Fullness has a factor too, which is 1 on a disk: so it is told apart from the
place, which moves with it. Least squares on logarithms; intervals by the tangent plane at the solution (Seber and
Wild, Nonlinear Regression, 2003, chapter 5), of the noise by chi squared. How often they hold is in the tests' table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from fsage.dataset import unpacked, values_of
from fsage.model.device import PLACES
from fsage.statistics import ALPHA

LEVEL = 0.95
SINGULAR = 1e6  # of the scaled Jacobian's condition: above it two of the values cannot be told apart

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reads:
    """Samples, an array each: of one read at a time.

    s_per_byte: its duration over its bytes. position and the moments after it: where these bytes lie, as shares of the
    device from its first block. seeks_per_byte: pieces over bytes. fullness: share of the capacity in use, 0 where the
    read went past the file system. hours: since some moment, of its beginning.
    """

    s_per_byte: Array
    position: Array
    position_sd: Array
    position_skewness: Array
    position_kurtosis: Array
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
    """Logarithm of the time of a byte. The moments of its place count (device.Place): 1 / rate is no straight line."""
    log_first, slope, seek_s, drift, fullness = theta
    at = 1 - slope * reads.position
    spread = slope * reads.position_sd / at
    series = 1 + spread**2 + reads.position_skewness * spread**3 + reads.position_kurtosis * spread**4
    transfer = np.exp(log_first) * series / at
    elapsed = np.maximum(1 + drift * reads.hours, 1e-3)
    return np.asarray(np.log(transfer + seek_s * reads.seeks_per_byte) - np.log(elapsed) + fullness * reads.fullness)


PLANTED = {"outer_to_inner": 1.0, "noise_cov": 0.0, "drift_percent_per_hour": 0.0}
"""What a disk may charge besides rate and seeks, and what it is where it does not; else a study is of the method."""
SHOWN = {
    "seek_s": ("seek", "ms", 1e3),
    "bytes_per_s": ("rate, first block", "MiB/s", 2**-20),
    "outer_to_inner": ("tracks, outer to inner", "x", 1.0),
    "drift_percent_per_hour": ("drift", "% an hour", 1.0),
    "noise_cov": ("noise, coefficient of variation", "%", 100.0),
}
"""Name, unit and factor of each cost of a disk."""
WHOLE = 4  # extents that an ext4 inode holds itself; for more a block is read, which is a seek


class Recovered(NamedTuple):
    """A planted value with its estimate; `unit` after both."""

    name: str
    unit: str
    planted: float
    found: Estimate

    @property
    def inside(self) -> bool:
        """Whether the planted value lies in the interval."""
        return self.found.low <= self.planted <= self.found.high


def recovered(frame: pd.DataFrame, level: float = LEVEL) -> list[Recovered]:
    """One for each planted value, with an interval of that level; empty where none is planted. Raises Inseparable."""
    costs = planted(frame)
    if costs is None:
        return []
    estimates = recover(reads(frame), level)
    return [
        *(
            Recovered(name, unit, factor * costs[key], _scaled(estimates[key], factor))
            for key, (name, unit, factor) in SHOWN.items()
            if key in costs  # virtual seconds have neither drift nor noise
        ),
        Recovered("fullness, full to empty", "x", 1.0, estimates["fullness"]),
    ]


def planted(frame: pd.DataFrame) -> Mapping[str, float] | None:
    """What the disk under all cells charges, where that is more than rate and seeks."""
    disks = frame.filter(regex=r"^device\.").dropna(how="all").drop_duplicates()
    if len(disks) != 1:
        return None
    [costs] = values_of(disks, "device")
    if "seek_s" in costs and any(costs.get(key, usual) != usual for key, usual in PLANTED.items()):
        return costs
    return None


def reads(frame: pd.DataFrame) -> Reads:
    """The valid reads of a study: planned cells, sentinels, and those past the file system."""
    valid = frame[
        (frame["status"] == "valid") & frame["read_bytes"].notna() & ~frame["kind"].isin(["traced", "warm_up"])
    ]
    past = valid["workload"] == "device_range"
    valid = valid[past | (valid["measured_mean_position"].notna() & valid["measured_position_sd"].notna())]
    past = valid["workload"] == "device_range"
    where = unpacked(valid, "param", position=0.5)["position"]
    files = valid["measured_files"]
    extents = valid["measured_extents"]
    seeks = (extents + files.where(extents > WHOLE * files, 0)) / valid["measured_bytes"]
    began = pd.to_datetime(valid["began"], utc=True, format="ISO8601")
    hours = (began - pd.to_datetime(_since(frame), unit="s", utc=True)) / pd.Timedelta(hours=1)

    def array(values: pd.Series) -> np.ndarray:
        return values.astype("float64").to_numpy()

    return Reads(
        s_per_byte=array(valid["read_seconds"] / valid["read_bytes"]),
        position=array(valid["measured_mean_position"].where(~past, where)),
        **{name: array(valid[f"measured_{name}"].where(~past).fillna(0.0)) for name in PLACES[1:]},
        seeks_per_byte=array(seeks.where(~past, 1 / valid["read_bytes"])),
        fullness=array((valid["real_fullness_percent"] / 100).where(~past, 0.0)),
        hours=array(hours),
    )


def failures(frame: pd.DataFrame) -> list[str]:
    """A sentence where any planted value lies outside of its interval, adjusted over all of them (Holm)."""
    try:
        found = recovered(frame)
    except Inseparable as why:
        return [f"planted values: {why}"]
    outside: list[str] = []
    while len(outside) < len(found):
        level = 1 - ALPHA / (len(found) - len(outside))
        more = [cost.name for cost in recovered(frame, level) if not cost.inside and cost.name not in outside]
        if not more:
            break
        outside += more
    if not outside:
        return []
    return [
        f"planted values: {len(outside)} of {len(found)} lie outside of their intervals (level "
        f"{1 - ALPHA:.0%} over all, Holm): {', '.join(outside)}"
    ]


def _since(frame: pd.DataFrame) -> float:
    """The moment from which the disk drifts."""
    costs = planted(frame) or {}
    return float(costs.get("since_s") or pd.to_datetime(frame["began"].dropna().min(), utc=True).timestamp())


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(estimate.value * factor, estimate.low * factor, estimate.high * factor)
