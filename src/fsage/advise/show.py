"""`fsage advise`: sentences, the most important first, then a row for each choice that was compared; or all as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.console import Console

from fsage import dataset
from fsage.advise import Advice, AdviceRequest, Rival, advise
from fsage.analysis import words
from fsage.analysis.words import NONE, Finding, bounds
from fsage.base import Json
from fsage.base.sizes import round_size, significant
from fsage.layouts.terminal import Table, drawn
from fsage.plan import Plan
from fsage.statistics import ALPHA, Ratio
from fsage.text.shown import Terminal


def sentences(advice: Advice) -> list[str]:
    """What to choose, how sure that is, and what it speaks of; what is doubtful comes after these."""
    decision = advice.decision
    options = advice.options
    weighed = advice.weighed
    data: Json = {
        "decision": decision,
        "least_share": advice.request.least_share,
        "covered": weighed.covered,
        "kind": options.kind,
        "default": options.default,
        "margin": f"{100 * advice.request.margin:g}%",
        "alpha": f"{ALPHA:.0%}",
        "files": advice.files.source,
        "sizes": " to ".join(dict.fromkeys(map(round_size, (min(advice.files.files), max(advice.files.files))))),
        "mix": advice.measured.mix,
        "params": advice.measured.params,
        "stamp": advice.stamp,
        "not_judged": "",
        "not_covered": options.not_covered,
    }
    if weighed.compared < 1:
        data["not_judged"] = f"{1 - weighed.compared:.1%} of the bytes are" if decision else "Bytes are"
    if decision:
        best = decision.best
        others = decision.rivals[1:]
        data["best"] = best
        data["left_out"] = bool(_left_out(advice)) or any(gap["status"] != "unsupported" for gap in advice.lacking)
        data["choices"] = sum(len(rival.cost.names) for rival in decision.rivals)
        data["usual"] = next((rival for rival in decision.rivals if options.default in rival.cost.names), None)
        data["to_default"] = _rate(best.to_default, data["usual"] and data["usual"].p)
        data["nearest"] = min(others, key=lambda other: (other.to_best and other.to_best.value) or 1.0, default=best)
        data["to_nearest"] = _rate(data["nearest"].to_best, data["nearest"].p)
        data["worst_p"] = f"{max((other.p or 0.0 for other in others), default=0.0):.2g}"
    return [*words.sentences("advice", **data), *options.notes]


def doubts(advice: Advice) -> list[str]:
    """What was not measured, and what weakens the evidence."""
    return words.sentences(
        "advice_doubts",
        not_compared=_left_out(advice) if advice.decision else {},
        lacking=advice.lacking,
        doubts=advice.doubts,
        alpha=ALPHA,
        assumes=advice.options.assumes,
    )


def _left_out(advice: Advice) -> dict[str, str]:
    """The choices that are not compared, and why."""
    compared = {name for cost in advice.weighed.costs for name in cost.names}
    covered = advice.weighed.covered.items()
    partial = {name: f"measured for {share:.0%} of the bytes" for name, share in covered if name not in compared}
    return {**partial, **advice.options.absent}


def _rate(of_costs: Ratio | None, p: float | None) -> Finding:
    """A ratio of costs as one of rates; `p`: that of the choice beside the best."""
    return Finding(of_costs.inverse if of_costs else Ratio(None, None, 0, 0, "nothing to compare"), p)


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
    rows = list(map(_row, rivals))
    if any(list(rival.cost.parts) != [rival.cost.name] for rival in rivals):
        heads.append("from states")
        for row, rival in zip(rows, rivals, strict=True):
            row.append(_states(rival))
    return Table("", heads, rows)


def _row(rival: Rival) -> list[str]:
    return [
        rival.cost.name,
        significant(rival.median_s * MIB_OF_GIB),
        _held(rival.to_default),
        NONE if rival.to_best is None or rival.to_best.value is None else significant(rival.to_best.value),
        _chance(rival.probability_best),
        str(len(rival.cost.samples)),
        rival.standing,
    ]


def _chance(probability: float | None) -> str:
    """So many draws tell no more than this."""
    if probability is None:
        return NONE
    if probability > 0.999:
        return "> 99.9%"
    return "< 0.1%" if probability < 0.001 else f"{probability:.1%}"


def _states(rival: Rival) -> str:
    return ", ".join(state if share > 0.999 else f"{share:.0%} {state}" for state, share in rival.cost.parts.items())


def _held(ratio: Ratio | None) -> str:
    if ratio is None or ratio.value is None:
        return NONE
    ends = ratio.interval
    return f"{significant(ratio.value)}{bounds(ends.low, ends.high, 3) if ends else ''}"


def as_dict(advice: Advice, records: Mapping[str, Sequence[str]]) -> dict[str, object]:
    """Everything, for programs; `records`: state -> the files of the samples that were used."""
    decision = advice.decision
    request = advice.request
    files = advice.files
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
            "at": {key: list(values) for key, values in request.at.items()},
            "params": advice.measured.params,
            "cold_reads": request.cold_reads,
            "margin": request.margin,
            "least_share": request.least_share,
        },
        "choices": list(map(_choice, decision.rivals)) if decision else [],
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
    used: set[str] = set()
    for cost in advice.weighed.costs:
        used.update(cost.parts)
    files: dict[str, list[str]] = {}
    of_record = advice.measured.records["state"]  # a row's own state may name several layouts
    for row in advice.measured.rows.itertuples():
        if row.state in used:
            files.setdefault(row.state, []).append(str(plan.results.record(of_record[row.Index], row.cell)))
    return files
