"""Advice from a study's records: which choice suits given files best, how sure that is, and what the data leave open.

`distribution`: the files that it is for. `measured`: what was measured, and what each choice costs for these files.
This module: the decision, and what makes it doubtful. `show`: sentences, a table, JSON.

The best choice is the one of the least median cost; each other one is tested against it (exact rank-sum test,
two-sided). What was picked as best may be so by chance, so with k choices each p is taken (k - 1) / 2 times, once at
least. Then, at ALPHA:

- Where the best of several are equal, one is declared the only best with a chance of ALPHA at most. It would have to
  beat each of the others at ALPHA, two-sided. Source: Gutmann and Maymin, Is the selected population the best?, Annals
  of Statistics 15, 1987.
- The truly best is not among the choices that are called worse with a chance of 1 - ALPHA at least. Any of k - 1 others
  might be picked and beat it by chance, each with half its p, and these add up to ALPHA at most (Bonferroni).

Choices that share some of their samples differ by less noise than the test assumes, which errs on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from fsage.advise.distribution import Distribution, single_size
from fsage.advise.measured import At, Cost, Measured, Options, Seconds, Weighed, gather, share_of, weigh
from fsage.analysis.comparisons import stamp
from fsage.analysis.conditions import basis, conditions
from fsage.analysis.groups import labelled_samples
from fsage.analysis.validity import PlannedCell, drifts, gaps
from fsage.base import Misuse
from fsage.model import plugins
from fsage.statistics import ALPHA, Ratio, Trend, compare, ratio, smallest_p, trend
from fsage.study import Study

DRAWS = 20_000
SEED = 1
POWER = 0.8
NORMAL = NormalDist()
RANK_SUM_EFFICIENCY = 3 / math.pi
"""Efficiency of the rank-sum test beside the t test, for normal samples."""
MOST_ITERATIONS = 1000

Standing = Literal["best", "worse", "alike", "open", "too few"]


@dataclass(frozen=True)
class Rival:
    """A choice beside the best: `to_best` and `to_default` are ratios of costs, above 1 it costs more.

    `p`: adjusted; none where there are too few samples for any. `iterations`: so many of each would probably tell the
    two apart. `probability_best`: see `probabilities`.
    """

    cost: Cost
    median_s: float
    standing: Standing
    to_best: Ratio | None
    to_default: Ratio | None
    p: float | None
    iterations: int | None
    probability_best: float | None


@dataclass(frozen=True)
class Decision:
    """`verdict`: choose the best; either it or those not told worse; or undecided. `rivals`: the best first."""

    verdict: Literal["choose", "either", "undecided"]
    rivals: list[Rival]

    @property
    def best(self) -> Rival:
        """The one of the least cost."""
        return self.rivals[0]

    def with_standing(self, *standings: Standing) -> list[Rival]:
        """Those that stand so."""
        return [rival for rival in self.rivals if rival.standing in standings]


def decide(costs: Sequence[Cost], seconds: Seconds, default: str, margin: float) -> Decision:
    """Compare the costs of at least one choice. `margin`: the ratio less 1 below which a difference does not matter."""
    ordered = sorted(costs, key=lambda cost: (median(cost.samples), default not in cost.names))
    best = ordered[0]
    usual = next((cost for cost in ordered if default in cost.names), None)
    factor = max(1.0, (len(ordered) - 1) / 2)
    rivals = []
    for cost, chance in zip(ordered, probabilities(ordered, seconds), strict=True):
        p: float | None = None
        standing: Standing = "best"
        iterations = None
        to_best = None
        to_default = None
        if cost is not best:
            to_best = ratio(cost.samples, best.samples)
            p, standing, iterations = _beside(cost.samples, best.samples, factor, margin)
        if usual is not None and cost is not usual:
            to_default = ratio(cost.samples, usual.samples)
        rivals.append(Rival(cost, median(cost.samples), standing, to_best, to_default, p, iterations, chance))
    standings = {rival.standing for rival in rivals[1:]}
    if standings <= {"worse"} and rivals[1:]:
        return Decision("choose", rivals)
    return Decision("undecided" if "too few" in standings else "either", rivals)


def _beside(
    samples: list[float], best: list[float], factor: float, margin: float
) -> tuple[float | None, Standing, int | None]:
    """The adjusted p of a choice beside the best, how it stands, and how many iterations might tell."""
    to_best = ratio(samples, best)
    near = to_best.interval is not None and to_best.interval.high <= 1 + margin
    test = compare(samples, best)
    if test is None or factor * smallest_p(len(samples), len(best)) > ALPHA:
        return None, "alike" if near else "too few", _iterations(samples, best, factor, margin)
    p = min(1.0, factor * test)
    if p <= ALPHA and (to_best.value or 0) > 1 + margin:
        return p, "worse", None
    if near or p <= ALPHA:
        return p, "alike", None
    return p, "open", _iterations(samples, best, factor, margin)


def _iterations(samples: Sequence[float], best: Sequence[float], factor: float, margin: float) -> int | None:
    """Iterations for each choice that find the seen difference, or the margin if that is more, with a chance of POWER.

    The formula of the t test on logarithms over the efficiency of the rank-sum test; at least what any p needs; none
    for more than MOST_ITERATIONS.
    """
    least = next(number for number in range(1, MOST_ITERATIONS) if factor * smallest_p(number, number) <= ALPHA)
    if min(len(samples), len(best)) < 2:
        return least
    logs = np.log(samples)
    logs_of_best = np.log(best)
    variance = float(np.var(logs, ddof=1) + np.var(logs_of_best, ddof=1))
    difference = max(abs(float(np.mean(logs) - np.mean(logs_of_best))), math.log1p(margin))
    if not difference:
        return None
    needed = (
        variance
        * (NORMAL.inv_cdf(1 - ALPHA / factor / 2) + NORMAL.inv_cdf(POWER)) ** 2
        / difference**2
        / RANK_SUM_EFFICIENCY
    )
    if needed <= MOST_ITERATIONS:
        return max(least, math.ceil(needed))
    return None


def probabilities(costs: Sequence[Cost], seconds: Seconds) -> list[float | None]:
    """How probable it is that each choice costs least, from the samples of the states that it is made of.

    The logarithm of a state's time is taken as normal, mean and deviation unknown (no prior knowledge): its mean then
    has Student's distribution with n - 1 degrees of freedom around that of the samples (Box and Tiao, Bayesian
    Inference in Statistical Analysis, 1973, section 2.4). Drawn once for each state, so that what choices have in
    common cancels. None where a state has one sample only.
    """
    states = {state: list(seconds[state].values()) for cost in costs for state in cost.parts}
    if any(len(samples) < 2 for samples in states.values()):
        return [None] * len(costs)
    draw = np.random.default_rng(SEED)
    times = {state: _draws(samples, draw) for state, samples in sorted(states.items())}
    drawn = np.stack([_cost_of(cost, times) for cost in costs])
    counts = np.bincount(drawn.argmin(axis=0), minlength=len(costs))
    return [float(count) / DRAWS for count in counts]


def _draws(samples: Sequence[float], draw: np.random.Generator) -> np.ndarray:
    logs = np.log(samples)
    scatter = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    return np.exp(np.clip(float(np.mean(logs)) + scatter * draw.standard_t(len(logs) - 1, DRAWS), -300, 300))


def _cost_of(cost: Cost, times: Mapping[str, np.ndarray]) -> np.ndarray:
    return cost.once_s + cost.times * np.sum([share * times[state] for state, share in cost.parts.items()], axis=0)


@dataclass(frozen=True)
class AdviceRequest:
    """What the command was given. `margin` and `least_share` as fractions; `cold_reads`: of defragmentation alone.

    Raises ValueError for numbers that are none.
    """

    files: Distribution | None
    at: At
    mix: Mapping[str, Sequence[str]]
    margin: float
    least_share: float
    cold_reads: float | None

    def __post_init__(self) -> None:
        shares = [share_of(name, texts) for name, texts in self.mix.items()]
        if shares and not sum(shares):
            raise Misuse("--mix: no measure has a share of the bytes")
        if not 0 <= self.margin < math.inf:
            raise Misuse(f"--margin {100 * self.margin:g}: a percentage from 0 up is allowed")
        if not 0 < self.least_share <= 1:
            raise Misuse(f"--least-share {100 * self.least_share:g}: a percentage above 0, up to 100 is allowed")
        if self.cold_reads is not None and not 0 < self.cold_reads < math.inf:
            raise Misuse(f"--cold-reads {self.cold_reads:g}: a number above 0 is allowed")


class Doubts(NamedTuple):
    """What weakens an advice: drifts within states, the trend `between` them, and sentences on the samples."""

    drifts: list[str]
    between: Trend
    samples: list[str]


@dataclass(frozen=True)
class Advice:
    """`decision` is none where no two choices can be compared; `lacking`: what has no sample (analysis.validity)."""

    study: str
    request: AdviceRequest
    files: Distribution
    measured: Measured
    options: Options
    weighed: Weighed
    decision: Decision | None
    lacking: list[dict[str, object]]
    doubts: Doubts
    stamp: str


def advise(study: Study, records: pd.DataFrame, cells: list[PlannedCell], request: AdviceRequest) -> Advice:
    """What follows from the records of a study. Raises ValueError where they, or the request, allow no answer."""
    recipe = study.states.recipe
    if recipe not in (advised := plugins.having("advice")):
        raise ValueError(f"study {study.name} has recipe {recipe}: there is advice for {', '.join(advised)}")
    of_recipe = plugins.of_study(recipe, "advice")
    if request.cold_reads is not None and not getattr(of_recipe, "COLD_READS", False):
        raise ValueError(f"--cold-reads is of studies of defragmentation; study {study.name} has recipe {recipe}")
    try:
        measured = gather(records, request.at, request.mix)
        options = of_recipe.options(measured, study.states, request)
    except ValueError as error:
        raise ValueError(f"study {study.name}: {error}") from error
    files = request.files or single_size(options.file_bytes)
    weighed = weigh(options, files, measured.seconds_per_mib, request.least_share)
    decision = None
    if len(weighed.costs) > 1 or any(len(cost.names) > 1 for cost in weighed.costs):
        decision = decide(weighed.costs, measured.seconds_per_mib, options.default, request.margin)
    return Advice(
        study.name,
        request,
        files,
        measured,
        options,
        weighed,
        decision,
        gaps(records, cells),
        _doubts(measured),
        stamp(measured.rows),
    )


def _doubts(measured: Measured) -> Doubts:
    """What weakens the advice: drift, conditions or layouts that were not alike, one layout only."""
    records = measured.records
    rows = labelled_samples(records[records["params"] == measured.rows["params"].iloc[0]])
    ours = rows["state"].isin(list(measured.seconds_per_mib))  # those left out of `measured.rows` among them
    taken = records.loc[rows.index[ours]]
    passes = records[(records["status"] == "valid") & (records["kind"] == "reference")].sort_values("began")
    between = trend(passes["read_bw_mib_s"].dropna().tolist())
    return Doubts(drifts(taken).found, between, [*conditions(taken), basis(taken)])
