"""`fsage advise`: its sentences, its table, and all of it as JSON.

The advice in plain sentences, the most important first.

`fsage advise`: sentences, then a row for each choice that was compared; or all of it as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from rich.console import Console

from fsage import dataset
from fsage.advise.decide import Advice, AdviceRequest, Decision, Rival, advise
from fsage.analysis.words import NONE, Finding, bounds
from fsage.base.sizes import round_size
from fsage.layouts.terminal import Table, drawn
from fsage.plan.plan import Plan
from fsage.statistics import ALPHA, Ratio
from fsage.text.terminal import Terminal


def sentences(advice: Advice) -> list[str]:
    """What to choose, how sure that is, and what it speaks of; what is doubtful comes after these."""
    return [*_decided(advice), _about_files(advice), *advice.options.notes]


def doubts(advice: Advice) -> list[str]:
    """What was not measured, and what weakens the evidence."""
    lines = [f"Not compared: {name}, {why}." for name, why in _left_out(advice).items() if advice.decision]
    lines += [
        f"No sample: {gap['state']}: {gap['count']} cells {gap['status']}: {gap['why']}." for gap in advice.lacking
    ]
    return [*lines, *advice.doubts, f"Assumed: {advice.options.assumes}."]


def _left_out(advice: Advice) -> dict[str, str]:
    """The choices that are not compared, and why."""
    compared = {name for cost in advice.weighed.costs for name in cost.names}
    covered = advice.weighed.covered.items()
    partial = {name: f"measured for {share:.0%} of the bytes" for name, share in covered if name not in compared}
    return {**partial, **advice.options.absent}


def _decided(advice: Advice) -> list[str]:
    decision = advice.decision
    if decision is None:
        covered = ", ".join(f"{name} for {share:.0%}" for name, share in advice.weighed.covered.items())
        least = f"the same {advice.request.least_share:.0%} of the bytes or more"
        return [
            f"The data do not decide: no two choices were measured for {least}; measured are {covered} "
            "(--least-share compares on less)."
        ]
    if len(decision.rivals) == 1:
        return [f"{decision.best.cost.name}: for these files one and the same {advice.options.kind}; any will do."]
    left = bool(_left_out(advice)) or any(gap["status"] != "unsupported" for gap in advice.lacking)
    among = (
        f"Among the {sum(len(rival.cost.names) for rival in decision.rivals)} choices that can be compared: "
        if left
        else ""
    )
    if decision.verdict == "undecided":
        return _undecided(decision)
    first, *more = _chosen(advice, decision) if decision.verdict == "choose" else _either(advice, decision)
    return [among + (first[:1].lower() + first[1:] if among else first), *more]


def _chosen(advice: Advice, decision: Decision) -> list[str]:
    best = decision.best
    others = decision.rivals[1:]
    if advice.options.default in best.cost.names:
        opening = f"Keep {_named(best)}, the default."
    else:
        opening = f"Choose {_named(best)}: {_beside_default(advice, decision)}."
    nearest = min(others, key=lambda other: (other.to_best and other.to_best.value) or 1.0)
    slower = _rate(nearest.to_best, nearest.p)
    if len(others) > 1:
        opening += f" All others are slower; {slower.said(f'the next, {nearest.cost.name},', best.cost.name)}."
    elif advice.options.default in best.cost.names:
        opening += f" {slower.said(nearest.cost.name, best.cost.name)}."
    worst_p = max(other.p or 0.0 for other in others)
    chance = f"adjusted p {'at most ' if len(others) > 1 else ''}{worst_p:.2g}"
    return [opening, f"Where the best are equal, one is named in {ALPHA:.0%} of cases at most ({chance})."]


def _either(advice: Advice, decision: Decision) -> list[str]:
    close = [decision.best, *decision.with_standing("alike", "open")]
    best = decision.best
    margin = f"{100 * advice.request.margin:g}%"
    default = next((rival for rival in close if advice.options.default in rival.cost.names), None)
    if default is not None:
        lines = [f"Keep {_named(default)}, the default: nothing is shown to be better by more than {margin}."]
        if default is not best:
            lines.append(f"The fastest was {best.cost.name}: {_beside_default(advice, decision)}.")
    else:
        if decision.with_standing("open"):
            why = "the data do not tell them apart"
        else:
            why = "between them it does not matter"
        lines = [f"Choose {_names(close, ' or ')}: {why}. {_beside_default(advice, decision)}."]
    alike = decision.with_standing("alike")
    if alike:
        lines.append(f"By less than {margin} differ from {best.cost.name}: {_names(alike)}.")
    return lines + _more(decision.with_standing("open"), best)


def _undecided(decision: Decision) -> list[str]:
    few = decision.with_standing("too few")
    best = decision.best
    counts = sorted({f"n={len(rival.cost.samples)}+{len(best.cost.samples)}" for rival in few})
    text = (
        f"The data do not decide: there are too few samples to tell {_names(few)} from {best.cost.name} "
        f"({', '.join(counts)}). Fastest so far: {_named(best)}."
    )
    return [text, *_more(decision.with_standing("too few", "open"), best)]


def _more(rivals: Sequence[Rival], best: Rival) -> list[str]:
    """How many iterations would probably decide, the fewest first."""
    lines = []
    for number in sorted({rival.iterations or 0 for rival in rivals}):
        these = [rival for rival in rivals if (rival.iterations or 0) == number]
        pairs = f"{_names(these)} from {best.cost.name}"
        now = min(len(rival.cost.samples) for rival in [*these, best])
        if number:
            lines.append(f"About {max(number, now + 1)} iterations of each, now {now}, would probably tell {pairs}.")
        else:
            lines.append(f"No number of iterations worth measuring would tell {pairs}.")
    return lines


def _beside_default(advice: Advice, decision: Decision) -> str:
    """The best beside the default, as the report says it: 'IOR.3 is 3.95 times as fast as IOR.1, the default (...)'."""
    best = decision.best
    default = advice.options.default
    usual = next((rival for rival in decision.rivals if default in rival.cost.names), None)
    if usual is None:
        return f"{default}, the default, is not compared"
    return _rate(best.to_default, usual.p).said(best.cost.name, f"{default}, the default")


def _rate(of_costs: Ratio | None, p: float | None) -> Finding:
    """A ratio of costs as one of rates; `p`: that of the choice beside the best."""
    return Finding(of_costs.inverse if of_costs else Ratio(None, None, 0, 0, "nothing to compare"), p)


def _about_files(advice: Advice) -> str:
    files = advice.files
    weighed = advice.weighed
    mix = ", ".join(f"{share:.0%} {name}" for name, share in advice.measured.mix.items())
    sizes = sorted(files.files)
    if len(sizes) == 1:
        sizes_text = round_size(sizes[0])
    else:
        sizes_text = f"{round_size(sizes[0])} to {round_size(sizes[-1])}"
    text = f"For {files.source} ({sizes_text}), {mix}, {advice.measured.params}, on {advice.stamp}."
    if weighed.compared < 1:
        if advice.decision:
            share = f"{1 - weighed.compared:.1%} of the bytes are"
        else:
            share = "Bytes are"
        text += f" {share} not judged: {advice.options.not_covered}."
    return text


def _named(rival: Rival) -> str:
    if rival.cost.says:
        return f"{rival.cost.name} ({rival.cost.says})"
    return rival.cost.name


def _names(rivals: Sequence[Rival], between: str = ", ") -> str:
    return between.join(rival.cost.name for rival in rivals)


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
    if probability > 0.999:
        return "> 99.9%"
    return "< 0.1%" if probability < 0.001 else f"{probability:.1%}"


def _states(rival: Rival) -> str:
    return ", ".join(state if share > 0.999 else f"{share:.0%} {state}" for state, share in rival.cost.parts.items())


def _held(ratio: Ratio | None) -> str:
    if ratio is None or ratio.value is None:
        return NONE
    ends = ratio.interval
    return f"{ratio.value:.3g}{bounds(ends.low, ends.high, 3) if ends else ''}"


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
            "at": {key: list(values) for key, values in (request.at or {}).items()},
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
    used = {state for cost in advice.weighed.costs for state in cost.parts}
    rows = advice.measured.rows
    return {
        state: [str(plan.results.record(state, cell)) for cell in rows.loc[rows["state"] == state, "cell"]]
        for state in advice.measured.seconds_per_mib
        if state in used
    }
