"""The targets of a study that has several: their own effect, and the primary comparisons on each."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import measure_label, plural, samples
from fsage.analysis.targets import Compared, Effect, compared, effects, targets_of, warnings
from fsage.figures import Axis, Level, Lines, Point, Series
from fsage.report.section import Section
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
    found, pairs = effects(frame), compared(frame, study)
    said = [HOW.get(study.targets, BOUND) if isinstance(study.targets, str) else BOUND]
    if found:
        wide = max((one.high / one.low for one in found if one.high and one.low), default=None)
        known = f", known within a factor of {wide**0.5:.3f}" if wide else ""
        said.append(
            f"Rates are divided by their target's factor, which {found[0].states} states that all measured give: from "
            f"{min(one.factor for one in found):.3f} to {max(one.factor for one in found):.3f}{known}."
        )
    if pairs:
        apart = [one for one in pairs if one.apart]
        said.append(
            "Does age do the same to all targets? Each primary comparison was tested for a difference between "
            f"targets. The test permutes residuals, at level {ALPHA:.0%} over all comparisons; differences below "
            f"{MARGIN:.0%} do not count. Result: "
            + ("; ".join(one.sentence for one in apart) if apart else "no difference was found")
            + "."
        )
    figures = [figure for figure in (_effects_figure(found, names), _pairs_figure(pairs, names)) if figure]
    return Section("Targets", " ".join(said), [*figures], warnings=warnings(frame), table=_table(frame, found, names))


def _effects_figure(found: list[Effect], names: list[str]) -> Lines | None:
    """Each target's factor, a series a measure."""
    series = [
        Series(
            plural(measure),
            tuple(
                Point(float(names.index(one.target)), one.factor, one.low, one.high, one.states, name=one.target)
                for one in found
                if one.measure == measure
            ),
            joined=False,
        )
        for measure in dict.fromkeys(one.measure for one in found)
    ]
    return _by_target("Each target against all", series, names, "rate over the mean of all targets")


def _pairs_figure(pairs: list[Compared], names: list[str]) -> Lines | None:
    """Each primary comparison, target by target."""
    series = [
        Series(
            f"{one.label}, {plural(one.measure)}",
            tuple(Point(float(names.index(name)), ratio, name=name) for name, ratio in one.ratios.items()),
            joined=False,
        )
        for one in pairs
    ]
    return _by_target("Primary comparisons on each target", series, names, "rate over that of the state compared with")


def _by_target(title: str, series: list[Series], names: list[str], rate: str) -> Lines | None:
    ticks = {float(place): name for place, name in enumerate(names)}
    return Lines(title, tuple(series), Axis("target", ticks=ticks), Axis(rate), (Level(1.0),)) if series else None


def _table(frame: pd.DataFrame, found: list[Effect], names: list[str]) -> list[list[str]]:
    """A row a target."""
    valid = samples(frame)
    rates = list(dict.fromkeys(one.measure for one in found))
    rows = [["target", "states", "valid samples", *(f"factor of {measure_label(rate)[0]}s" for rate in rates)]]
    for name in names:
        mine = valid[valid["target"] == name]
        known = {one.measure: one for one in found if one.target == name}
        rows.append([name, str(mine["state"].nunique()), str(len(mine)), *(_factor(known.get(rate)) for rate in rates)])
    return rows


def _factor(one: Effect | None) -> str:
    if one is None:
        return "not known"
    return f"{one.factor:.3f}" + (f" ({one.low:.3f} to {one.high:.3f})" if one.low and one.high else "")
