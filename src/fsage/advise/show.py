"""`fsage advise`: sentences, then a row for each choice that was compared; or all of it as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.console import Console

from fsage import dataset
from fsage.advise.advice import Advice, AdviceRequest, advise
from fsage.advise.decide import Rival
from fsage.advise.words import doubts, sentences
from fsage.analysis.words import NONE, held
from fsage.evidence.tables import Table
from fsage.evidence.terminal import drawn
from fsage.plan.plan import Plan
from fsage.statistics import Ratio
from fsage.text.terminal import Terminal

MIB_OF_GIB = 1024


def show(advice: Advice, console: Console) -> None:
    """Print the advice, what it rests on, and what is doubtful."""
    for text in sentences(advice):
        console.print(text, markup=False, highlight=False)
    if advice.decision:
        console.print()
        console.print(drawn(_table(advice.decision.rivals)), markup=False, highlight=False, soft_wrap=True)
    for text in doubts(advice):
        console.print(f"- {text}", markup=False, highlight=False)


def _table(rivals: Sequence[Rival]) -> Table:
    """Which states a choice was told from is named where that is not plain."""
    heads = ["choice", "s/GiB", "times default", "times best", "P(best)", "n", "stands"]
    plain = all(list(rival.cost.parts) == [rival.cost.name] for rival in rivals)
    rows = [_row(rival) + ([] if plain else [_states(rival)]) for rival in rivals]
    return Table("", heads + ([] if plain else ["from states"]), rows)


def _row(rival: Rival) -> list[str]:
    return [
        rival.cost.name,
        f"{rival.median_s * MIB_OF_GIB:.3g}",
        _held(rival.to_default),
        NONE if rival.to_best is None or rival.to_best.value is None else f"{rival.to_best.value:.3g}",
        _chance(rival.probability_best),
        str(len(rival.cost.samples)),
        rival.standing,
    ]


def _chance(probability: float | None) -> str:
    """So many draws tell no more than this."""
    if probability is None:
        return NONE
    return "> 99.9%" if probability > 0.999 else "< 0.1%" if probability < 0.001 else f"{probability:.1%}"


def _states(rival: Rival) -> str:
    return ", ".join(state if share > 0.999 else f"{share:.0%} {state}" for state, share in rival.cost.parts.items())


def _held(ratio: Ratio | None) -> str:
    if ratio is None or ratio.value is None:
        return NONE
    ends = ratio.interval
    return f"{ratio.value:.3g}{held(ends.low, ends.high, 3) if ends else ''}"


def as_dict(advice: Advice, records: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """Everything, for programs; `records`: state -> the files of the samples that were used."""
    decision, request, files = advice.decision, advice.request, advice.files
    close = (
        [decision.best, *decision.with_standing("alike", "open")]
        if decision and decision.verdict != "undecided"
        else []
    )
    return {
        "study": advice.study,
        "kind": advice.options.kind,
        "verdict": decision.verdict if decision else "undecided",
        "choose": [name for rival in close for name in rival.cost.names],
        "default": advice.options.default,
        "sentences": sentences(advice),
        "doubts": doubts(advice),
        "requested": {
            "files": {"source": files.source, "sizes": len(files.files), "bytes": files.bytes, "empty": files.empty},
            "mix": dict(advice.measured.mix),
            "at": {key: list(values) for key, values in (request.at or {}).items()},
            "params": advice.measured.params,
            "cold_reads": request.cold_reads,
            "margin": request.margin,
            "least_share": request.least_share,
        },
        "choices": [_choice(rival) for rival in decision.rivals] if decision else [],
        "covered_share_of_bytes": dict(advice.weighed.covered),
        "compared_share_of_bytes": advice.weighed.compared,
        "taken_on": advice.stamp,
        "records": {state: list(paths) for state, paths in records.items()},
    }


def _choice(rival: Rival) -> dict[str, object]:
    return {
        "names": list(rival.cost.names),
        "states": dict(rival.cost.parts),
        "seconds_per_gib": rival.median_s * MIB_OF_GIB,
        "samples_seconds_per_gib": [value * MIB_OF_GIB for value in rival.cost.samples],
        "stands": rival.standing,
        "times_best": rival.to_best and asdict(rival.to_best),
        "times_default": rival.to_default and asdict(rival.to_default),
        "p_adjusted": rival.p,
        "probability_best": rival.probability_best,
        "iterations_to_decide": rival.iterations,
    }


def run(plan: Plan, request: AdviceRequest, as_json: bool) -> None:
    """Advise on a plan's records and print it. Raises ValueError for bad input, and where nothing is measured."""
    records = dataset.load(plan.files())
    if records.empty:
        raise ValueError(
            f"study {plan.study.name} has no record on target {plan.target.name} in {plan.results.records('')}: "
            f"`{plan.commands.measure}` measures"
        )
    advice = advise(plan.study, records, [(state, cell.name, cell.kind) for state, cell in plan.all_cells()], request)
    if as_json:
        print(json.dumps(as_dict(advice, _files(plan, advice)), indent=1))
    else:
        show(advice, Terminal())


def _files(plan: Plan, advice: Advice) -> dict[str, list[str]]:
    """State -> the record files of its samples."""
    used = {state for cost in advice.weighed.costs for state in cost.parts}
    rows = advice.measured.rows
    return {
        state: [str(plan.results.record(state, cell)) for cell in rows.loc[rows["state"] == state, "cell"]]
        for state in advice.measured.seconds_per_mib
        if state in used
    }
