"""The advice in plain sentences, the most important first."""

from __future__ import annotations

from collections.abc import Sequence

from fsage.advise.advice import Advice
from fsage.advise.decide import Decision, Rival
from fsage.statistics import ALPHA, Ratio
from fsage.text.sizes import round_size


def sentences(advice: Advice) -> list[str]:
    """What to choose, how sure that is, and what it speaks of; what is doubtful comes after these."""
    return [*_decided(advice), _files(advice), *advice.options.notes]


def doubts(advice: Advice) -> list[str]:
    """What was not measured, and what weakens the evidence."""
    said = [f"Not compared: {name}, {why}." for name, why in _left_out(advice).items() if advice.decision]
    said += [
        f"No sample: {one['state']}: {one['count']} cells {one['status']}: {one['why']}." for one in advice.lacking
    ]
    return [*said, *advice.doubts, f"Assumed: {advice.options.assumes}."]


def _left_out(advice: Advice) -> dict[str, str]:
    """The choices that are not compared, and why."""
    compared = {name for cost in advice.weighed.costs for name in cost.names}
    covered = advice.weighed.covered.items()
    told = {name: f"measured for {share:.0%} of the bytes" for name, share in covered if name not in compared}
    return {**told, **advice.options.absent}


def _decided(advice: Advice) -> list[str]:
    found = advice.decision
    if found is None:
        covered = ", ".join(f"{name} for {share:.0%}" for name, share in advice.weighed.covered.items())
        least = f"the same {advice.request.least_share:.0%} of the bytes or more"
        return [
            f"The data do not decide: no two choices were measured for {least}; measured are {covered} "
            "(--least-share compares on less)."
        ]
    if len(found.rivals) == 1:
        return [f"{found.best.cost.name}: for these files one and the same {advice.options.kind}; any will do."]
    left = bool(_left_out(advice)) or any(one["status"] != "unsupported" for one in advice.lacking)
    among = (
        f"Among the {sum(len(one.cost.names) for one in found.rivals)} choices that can be compared: " if left else ""
    )
    if found.verdict == "undecided":
        return _undecided(found)
    first, *more = _chosen(advice, found) if found.verdict == "choose" else _either(advice, found)
    return [among + (first[:1].lower() + first[1:] if among else first), *more]


def _chosen(advice: Advice, found: Decision) -> list[str]:
    best, others = found.best, found.rivals[1:]
    if advice.options.default in best.cost.names:
        opening = f"Keep {_named(best)}, the default."
    else:
        opening = f"Choose {_named(best)}: {_beside_default(advice, best)}."
    nearest = min(others, key=lambda one: (one.to_best and one.to_best.value) or 1.0)
    beside = f"{nearest.cost.name} takes {_times(nearest.to_best, best.cost.name)}"
    if len(others) > 1:
        opening += f" All others take longer; the next, {beside}."
    elif advice.options.default in best.cost.names:
        opening += f" {beside}."
    worst_p = max(one.p or 0.0 for one in others)
    chance = f"adjusted p {'at most ' if len(others) > 1 else ''}{worst_p:.2g}"
    return [opening, f"Where the best are equal, one is named in {ALPHA:.0%} of cases at most ({chance})."]


def _either(advice: Advice, found: Decision) -> list[str]:
    close, best = [found.best, *found.with_standing("alike", "open")], found.best
    margin = f"{100 * advice.request.margin:g}%"
    default = next((one for one in close if advice.options.default in one.cost.names), None)
    if default is not None:
        said = [f"Keep {_named(default)}, the default: nothing is shown to be better by more than {margin}."]
        if default is not best:
            said.append(f"The fastest was {best.cost.name}: {_beside_default(advice, best)}.")
    else:
        why = "the data do not tell them apart" if found.with_standing("open") else "between them it does not matter"
        said = [f"Choose {_names(close, ' or ')}: {why}. {_beside_default(advice, best)}."]
    if alike := found.with_standing("alike"):
        said.append(f"By less than {margin} differ from {best.cost.name}: {_names(alike)}.")
    return said + _more(found.with_standing("open"), best)


def _undecided(found: Decision) -> list[str]:
    few, best = found.with_standing("too few"), found.best
    counts = sorted({f"n={len(one.cost.samples)}+{len(best.cost.samples)}" for one in few})
    said = (
        f"The data do not decide: there are too few samples to tell {_names(few)} from {best.cost.name} "
        f"({', '.join(counts)}). Fastest so far: {_named(best)}."
    )
    return [said, *_more(found.with_standing("too few", "open"), best)]


def _more(rivals: Sequence[Rival], best: Rival) -> list[str]:
    """How many iterations would probably decide, the fewest first."""
    said = []
    for number in sorted({one.iterations or 0 for one in rivals}):
        these = [one for one in rivals if (one.iterations or 0) == number]
        pairs = f"{_names(these)} from {best.cost.name}"
        now = min(len(one.cost.samples) for one in [*these, best])
        if number:
            said.append(f"About {max(number, now + 1)} iterations of each, now {now}, would probably tell {pairs}.")
        else:
            said.append(f"No number of iterations worth measuring would tell {pairs}.")
    return said


def _beside_default(advice: Advice, one: Rival) -> str:
    default = advice.options.default
    if one.to_default is None:
        return f"{default}, the default, is not compared"
    return f"{one.cost.name} takes {_times(one.to_default, default + ', the default')}"


def _times(found: Ratio | None, than: str) -> str:
    """'0.251 times as long as IOR.1 (0.249 to 0.253, 96.8%, n=5+5)'."""
    if found is None or found.value is None:
        return f"a time that cannot be compared with {than}"
    held, n = found.interval, f"n={found.n}+{found.n_reference}"
    interval = f"{held.low:.3g} to {held.high:.3g}, {held.level:.1%}, {n}" if held else f"no interval, {n}"
    return f"{found.value:.3g} times as long as {than} ({interval})"


def _files(advice: Advice) -> str:
    files, weighed = advice.files, advice.weighed
    mix = ", ".join(f"{share:.0%} {name}" for name, share in advice.measured.mix.items())
    sizes = sorted(files.files)
    said = round_size(sizes[0]) if len(sizes) == 1 else f"{round_size(sizes[0])} to {round_size(sizes[-1])}"
    text = f"For {files.source} ({said}), {mix}, {advice.measured.params}, on {advice.stamp}."
    if weighed.compared < 1:
        share = f"{1 - weighed.compared:.1%} of the bytes are" if advice.decision else "Bytes are"
        text += f" {share} not judged: {advice.options.not_covered}."
    return text


def _named(one: Rival) -> str:
    return f"{one.cost.name} ({one.cost.says})" if one.cost.says else one.cost.name


def _names(rivals: Sequence[Rival], between: str = ", ") -> str:
    return between.join(one.cost.name for one in rivals)
