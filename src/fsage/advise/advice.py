"""The advice on one study's records: the request, the costs, the decision, and what makes it doubtful."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from fsage.advise.decide import Decision, decide
from fsage.advise.distribution import Distribution, single_size
from fsage.advise.measured import At, Measured, gather
from fsage.advise.weigh import Options, Weighed, weigh
from fsage.analysis.conditions import basis, conditions
from fsage.analysis.drift import drifts
from fsage.analysis.groups import samples
from fsage.analysis.headline import stamp
from fsage.analysis.missing import PlannedCell, gaps
from fsage.model import plugins
from fsage.statistics import ALPHA, trend
from fsage.study.study import Study


@dataclass(frozen=True)
class AdviceRequest:
    """What the command was given. `margin` and `least_share` as fractions; `cold_reads`: of defragmentation alone.

    Raises ValueError for numbers that are none.
    """

    files: Distribution | None = None
    at: At | None = None
    mix: Mapping[str, Sequence[str]] | None = None
    margin: float = 0.03
    least_share: float = 0.9
    cold_reads: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.margin < math.inf:
            raise ValueError(f"--margin {100 * self.margin:g}: a percentage from 0 up is allowed")
        if not 0 < self.least_share <= 1:
            raise ValueError(f"--least-share {100 * self.least_share:g}: a percentage above 0, up to 100 is allowed")
        if self.cold_reads is not None and not 0 < self.cold_reads < math.inf:
            raise ValueError(f"--cold-reads {self.cold_reads:g}: a number above 0 is allowed")


@dataclass(frozen=True)
class Advice:
    """`decision` is none where no two choices can be compared; `lacking`: what has no sample (analysis.missing)."""

    study: str
    request: AdviceRequest
    files: Distribution
    measured: Measured
    options: Options
    weighed: Weighed
    decision: Decision | None
    lacking: list[dict[str, object]]
    doubts: list[str]
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
        measured = gather(records, request.at or {}, request.mix or {})
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


def _doubts(measured: Measured) -> list[str]:
    """What weakens the advice: drift, conditions or layouts that were not alike, one layout only."""
    records = measured.records
    ours = records[records["state"].isin(list(measured.seconds_per_mib))]
    taken = samples(ours[ours["params"] == measured.rows["params"].iloc[0]])  # those left out of the rows among them
    drifting = drifts(taken).found
    passes = records[(records["status"] == "valid") & (records["kind"] == "reference")].sort_values("began")
    between = trend(passes["read_bw_mib_s"].dropna().tolist() if "read_bw_mib_s" in passes else [])
    sentences = [f"Drift within a state: {drift}." for drift in drifting]
    if between.p is None:
        sentences.append(
            "States were measured one after another: a drift from one to the next would count as a difference."
        )
    elif between.p <= ALPHA:
        sentences.append(f"Drift between states: one range of the device changed with time (p={between.p:.2g}).")
    return sentences + conditions(taken) + [basis(taken)]
