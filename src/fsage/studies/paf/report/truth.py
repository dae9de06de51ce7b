"""Planted values beside recovered ones, where the target's disk has any."""

from __future__ import annotations

from fsage.analysis.truth import Recovered, recovered
from fsage.analysis.words import joined
from fsage.figures import Axis, Figure, Level, Lines, Point, Series
from fsage.report.section import Data, Section
from fsage.statistics.disk import LEVEL, Inseparable

TITLE = "What was planted, and what was found"


def truth(data: Data) -> Section | None:
    """A table of each planted value with what was recovered, and these as shares of those."""
    try:
        parameters = recovered(data.frame)
    except Inseparable as why:
        return Section(TITLE, "", [], warnings=[f"Nothing can be recovered: {why}."])
    if not parameters:
        return None
    outside = [parameter.name for parameter in parameters if not parameter.inside]
    text = (
        "The disk below is modelled, and its costs are declared. All costs are estimated together from the reads: "
        "their times, places and extents, and when they ran. The declared costs are not used. Fullness itself costs "
        f"nothing on it. Intervals hold {LEVEL:.0%}; of {len(parameters)} values one may be outside by chance."
    )
    table = [["value", "planted", "recovered", f"{LEVEL:.0%} interval", "planted lies inside"]]
    table += [
        [
            f"{parameter.name}, {parameter.unit}",
            f"{parameter.planted:.4g}",
            f"{parameter.found.value:.4g}",
            f"{parameter.found.low:.4g} to {parameter.found.high:.4g}",
            "yes" if parameter.inside else "no",
        ]
        for parameter in parameters
    ]
    warnings = [f"Outside of its interval: {', '.join(outside)}."] if outside else []
    return Section(TITLE, text, _figure(parameters), warnings=warnings, table=table)


def planted_told(data: Data) -> tuple[list[str], Figure] | None:
    """The answer's sentences and figure: whether a report finds what was planted; None where nothing is."""
    try:
        parameters = recovered(data.frame)
    except Inseparable:
        return None
    if not parameters:
        return None
    outside = [parameter.name.partition(",")[0] for parameter in parameters if not parameter.inside]
    most = f"{len(parameters) - len(outside)} of" if outside else "All"
    values = [
        f"{parameter.name.partition(',')[0]} {_value(parameter.found.value, parameter)} "
        f"for {_value(parameter.planted, parameter)}"
        for parameter in parameters
    ]
    sentences = [
        f"{most} {len(parameters)} planted values lie in the {LEVEL:.0%} intervals of what was found: {joined(values)}."
    ]
    if outside:
        sentences.append(f"Outside {'lies' if len(outside) == 1 else 'lie'} {joined(outside)}.")
    return sentences, _figure(parameters)[0]


def _value(value: float, parameter: Recovered) -> str:
    return f"{value:.3g}{'' if parameter.unit in ('x', '%', '% an hour') else ' '}{parameter.unit}"


def _figure(parameters: list[Recovered]) -> list[Figure]:
    """Recovered over planted, where what was planted is not 0."""
    shown = [parameter for parameter in parameters if parameter.planted]
    points = tuple(
        Point(place, parameter.found.value / parameter.planted, min(ends), max(ends))
        for place, parameter in enumerate(shown)
        for ends in [(parameter.found.low / parameter.planted, parameter.found.high / parameter.planted)]
    )
    names = {float(place): parameter.name.partition(",")[0] for place, parameter in enumerate(shown)}
    return [
        Lines(
            "Recovered over planted",
            (Series("recovered", points, joined=False),),
            Axis("", ticks=names),
            Axis("recovered over planted"),
            (Level(1.0, "planted"),),
        )
    ]
