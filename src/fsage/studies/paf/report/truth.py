"""Planted values beside recovered ones, where the target's disk has any."""

from __future__ import annotations

from fsage.analysis.truth import Recovered, recovered
from fsage.figures import Axis, Figure, Level, Lines, Point, Series
from fsage.report.section import Data, Section
from fsage.report.words import joined
from fsage.statistics.disk import LEVEL, Inseparable

TITLE = "What was planted, and what was found"


def truth(data: Data) -> Section | None:
    """A table of each planted value with what was recovered, and these as shares of those."""
    try:
        found = recovered(data.frame)
    except Inseparable as why:
        return Section(TITLE, "", [], warnings=[f"Nothing can be recovered: {why}."])
    if not found:
        return None
    outside = [one.name for one in found if not one.inside]
    text = (
        "The disk below is modelled, and its costs are declared. All costs are estimated together from the reads: "
        "their times, places and extents, and when they ran. The declared costs are not used. Fullness itself costs "
        f"nothing on it. Intervals hold {LEVEL:.0%}; of {len(found)} values one may be outside by chance."
    )
    table = [["value", "planted", "recovered", f"{LEVEL:.0%} interval", "planted lies inside"]]
    table += [
        [
            f"{one.name}, {one.unit}",
            f"{one.planted:.4g}",
            f"{one.found.value:.4g}",
            f"{one.found.low:.4g} to {one.found.high:.4g}",
            "yes" if one.inside else "no",
        ]
        for one in found
    ]
    warnings = [f"Outside of its interval: {', '.join(outside)}."] if outside else []
    return Section(TITLE, text, _figure(found), warnings=warnings, table=table)


def planted_told(data: Data) -> tuple[list[str], Figure] | None:
    """The answer's sentences and figure: whether a report finds what was planted; None where nothing is."""
    try:
        found = recovered(data.frame)
    except Inseparable:
        return None
    if not found:
        return None
    outside = [one.name.partition(",")[0] for one in found if not one.inside]
    most = f"{len(found) - len(outside)} of" if outside else "All"
    values = [
        f"{one.name.partition(',')[0]} {_value(one.found.value, one)} for {_value(one.planted, one)}" for one in found
    ]
    sentences = [
        f"{most} {len(found)} planted values lie in the {LEVEL:.0%} intervals of what was found: {joined(values)}."
    ]
    if outside:
        sentences.append(f"Outside {'lies' if len(outside) == 1 else 'lie'} {joined(outside)}.")
    return sentences, _figure(found)[0]


def _value(value: float, one: Recovered) -> str:
    return f"{value:.3g}{'' if one.unit in ('x', '%', '% an hour') else ' '}{one.unit}"


def _figure(found: list[Recovered]) -> list[Figure]:
    """Recovered over planted, where what was planted is not 0."""
    shown = [one for one in found if one.planted]
    points = tuple(
        Point(place, one.found.value / one.planted, min(ends), max(ends))
        for place, one in enumerate(shown)
        for ends in [(one.found.low / one.planted, one.found.high / one.planted)]
    )
    names = {float(place): one.name.partition(",")[0] for place, one in enumerate(shown)}
    return [
        Lines(
            "Recovered over planted",
            (Series("recovered", points, joined=False),),
            Axis("", ticks=names),
            Axis("recovered over planted"),
            (Level(1.0, "planted"),),
        )
    ]
