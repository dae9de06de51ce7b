"""The targets of a study that has several: their own effect, and the primary comparisons on each."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import measure_label, plural, samples
from fsage.analysis.targets import Compared, Effect, compared, effects, targets_of, warnings
from fsage.figures import Axis, Level, Lines, lines, placed
from fsage.model.typed import Json
from fsage.report.parts import Section
from fsage.statistics import ALPHA, MARGIN
from fsage.study.study import Study

HOW = {
    "share": "The targets share the states: each measured a part, and all of them those that are compared first.",
    "repeat": "Each target measured all: intervals are over the targets.",
}
BOUND = "Each target has levels of an axis of its own: what the targets differ in is not apart from what these do."


def section(frame: pd.DataFrame, study: Study) -> Section | None:
    """None for one target."""
    names = targets_of(frame)
    if len(names) < 2:
        return None
    target_effects = effects(frame)
    pairs = compared(frame, study)
    sentences = [HOW.get(study.targets, BOUND) if isinstance(study.targets, str) else BOUND]
    if target_effects:
        wide = max((effect.high / effect.low for effect in target_effects if effect.high and effect.low), default=None)
        if wide:
            accuracy = f", known within a factor of {wide**0.5:.3f}"
        else:
            accuracy = ""
        factors = [effect.factor for effect in target_effects]
        sentences.append(
            f"Rates are divided by their target's factor, from {target_effects[0].states} states that all targets "
            f"measured: {min(factors):.3f} to {max(factors):.3f}{accuracy}."
        )
    if pairs:
        apart = [pair for pair in pairs if pair.apart]
        sentences.append(
            "Does age do the same to all targets? Each primary comparison was tested for a difference between "
            f"targets. The test permutes residuals, at level {ALPHA:.0%} over all comparisons; differences below "
            f"{MARGIN:.0%} do not count. Result: "
            + ("; ".join(pair.sentence for pair in apart) if apart else "no difference was found")
            + "."
        )
    figures = [figure for figure in (_effects_figure(target_effects, names), _pairs_figure(pairs, names)) if figure]
    return Section(
        "Targets", " ".join(sentences), [*figures], warnings=warnings(frame), table=_table(frame, target_effects, names)
    )


def _effects_figure(target_effects: list[Effect], names: list[str]) -> Lines | None:
    """Each target's factor, a series a measure."""
    rows = [
        {"line": plural(effect.measure), "state": effect.target, "median": effect.factor, "n": effect.states}
        | {"low": effect.low, "high": effect.high}
        for effect in target_effects
    ]
    return _by_target("Each target against all", rows, names, "rate over the mean of all targets")


def _pairs_figure(pairs: list[Compared], names: list[str]) -> Lines | None:
    """Each primary comparison, target by target."""
    rows = [
        {"line": f"{pair.label}, {plural(pair.measure)}", "state": name, "median": ratio}
        for pair in pairs
        for name, ratio in pair.ratios.items()
    ]
    return _by_target("Primary comparisons on each target", rows, names, "rate over that of the state compared with")


def _by_target(title: str, rows: list[Json], names: list[str], rate: str) -> Lines | None:
    if not rows:
        return None
    by_target, ticks = placed(pd.DataFrame(rows), "state", names)
    return lines(title, by_target, "line", Axis("target", ticks=ticks), Axis(rate), joined=False, levels=[Level(1.0)])


def _table(frame: pd.DataFrame, target_effects: list[Effect], names: list[str]) -> list[list[str]]:
    """A row a target."""
    valid = samples(frame)
    rates = list(dict.fromkeys(effect.measure for effect in target_effects))
    rows = [["target", "states", "valid samples", *(f"factor of {measure_label(rate)[0]}s" for rate in rates)]]
    for name in names:
        of_target = valid[valid["target"] == name]
        by_measure = {effect.measure: effect for effect in target_effects if effect.target == name}
        rows.append(
            [
                name,
                str(of_target["state"].nunique()),
                str(len(of_target)),
                *(_factor(by_measure.get(rate)) for rate in rates),
            ]
        )
    return rows


def _factor(effect: Effect | None) -> str:
    if effect is None:
        return "not known"
    return f"{effect.factor:.3f}" + (f" ({effect.low:.3f} to {effect.high:.3f})" if effect.low and effect.high else "")
