"""The advice in plain sentences, the most important first."""

from __future__ import annotations

from collections.abc import Sequence

from fsage.advise.advice import Advice
from fsage.advise.decide import Decision, Rival
from fsage.analysis.words import Finding
from fsage.statistics import ALPHA, Ratio
from fsage.text.sizes import round_size


def sentences(advice: Advice) -> list[str]:
    """What to choose, how sure that is, and what it speaks of; what is doubtful comes after these."""
    return [*_decided(advice), _files(advice), *advice.options.notes]


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
    told = {name: f"measured for {share:.0%} of the bytes" for name, share in covered if name not in compared}
    return {**told, **advice.options.absent}


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
    best, others = decision.best, decision.rivals[1:]
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
    close, best = [decision.best, *decision.with_standing("alike", "open")], decision.best
    margin = f"{100 * advice.request.margin:g}%"
    default = next((rival for rival in close if advice.options.default in rival.cost.names), None)
    if default is not None:
        lines = [f"Keep {_named(default)}, the default: nothing is shown to be better by more than {margin}."]
        if default is not best:
            lines.append(f"The fastest was {best.cost.name}: {_beside_default(advice, decision)}.")
    else:
        why = "the data do not tell them apart" if decision.with_standing("open") else "between them it does not matter"
        lines = [f"Choose {_names(close, ' or ')}: {why}. {_beside_default(advice, decision)}."]
    if alike := decision.with_standing("alike"):
        lines.append(f"By less than {margin} differ from {best.cost.name}: {_names(alike)}.")
    return lines + _more(decision.with_standing("open"), best)


def _undecided(decision: Decision) -> list[str]:
    few, best = decision.with_standing("too few"), decision.best
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
    best, default = decision.best, advice.options.default
    usual = next((rival for rival in decision.rivals if default in rival.cost.names), None)
    if usual is None:
        return f"{default}, the default, is not compared"
    return _rate(best.to_default, usual.p).said(best.cost.name, f"{default}, the default")


def _rate(of_costs: Ratio | None, p: float | None) -> Finding:
    """A ratio of costs as one of rates; `p`: that of the choice beside the best."""
    return Finding(of_costs.inverse if of_costs else Ratio(None, None, 0, 0, "nothing to compare"), p)


def _files(advice: Advice) -> str:
    files, weighed = advice.files, advice.weighed
    mix = ", ".join(f"{share:.0%} {name}" for name, share in advice.measured.mix.items())
    sizes = sorted(files.files)
    sizes_text = round_size(sizes[0]) if len(sizes) == 1 else f"{round_size(sizes[0])} to {round_size(sizes[-1])}"
    text = f"For {files.source} ({sizes_text}), {mix}, {advice.measured.params}, on {advice.stamp}."
    if weighed.compared < 1:
        share = f"{1 - weighed.compared:.1%} of the bytes are" if advice.decision else "Bytes are"
        text += f" {share} not judged: {advice.options.not_covered}."
    return text


def _named(rival: Rival) -> str:
    return f"{rival.cost.name} ({rival.cost.says})" if rival.cost.says else rival.cost.name


def _names(rivals: Sequence[Rival], between: str = ", ") -> str:
    return between.join(rival.cost.name for rival in rivals)
