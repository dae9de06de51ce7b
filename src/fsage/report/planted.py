"""Planted values beside recovered ones, where the target's disk has any: a section of any report, and an answer."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from fsage.analysis.truth import LEVEL, Inseparable, Recovered, recovered
from fsage.analysis.words import sentences
from fsage.figures import Axis, Figure, Level, lines
from fsage.report.parts import Data, Section

TITLE = "What was planted, and what was found"


class Planted(NamedTuple):
    """The section; and sentences with a figure for the answer, none where nothing can be recovered."""

    section: Section
    sentences: list[str]
    figure: Figure | None = None


def planted(data: Data) -> Planted | None:
    """Whether the report finds what was planted; None where nothing was."""
    try:
        parameters = recovered(data.frame)
    except Inseparable as why:
        return Planted(Section(TITLE, "", warnings=[f"Nothing can be recovered: {why}."]), [])
    if not parameters:
        return None
    figure = _figure(parameters)
    return Planted(_section(parameters, figure), _sentences(parameters), figure)


def _section(parameters: list[Recovered], figure: Figure) -> Section:
    """A table of each planted value with what was recovered."""
    outside = [parameter.name for parameter in parameters if not parameter.inside]
    text = (
        "The disk below is modelled, and its costs are declared. All costs are estimated together from the reads: "
        "their times, places and extents, and when they ran. The declared costs are not used. Fullness itself costs "
        f"nothing on it. Each interval holds {LEVEL:.0%}, so of {len(parameters)} values one may be outside by chance. "
        "The study fails where one is outside of its interval adjusted over all of them (Holm)."
    )
    table = [["value", "planted", "recovered", f"{LEVEL:.0%} interval", "planted lies inside"]]
    for parameter in parameters:
        found = parameter.found
        row = [f"{parameter.name}, {parameter.unit}", f"{parameter.planted:.4g}", f"{found.value:.4g}"]
        table.append([*row, f"{found.low:.4g} to {found.high:.4g}", "yes" if parameter.inside else "no"])
    warnings = []
    if outside:
        warnings.append(f"Outside of its interval: {', '.join(outside)}.")
    return Section(TITLE, text, [figure], warnings=warnings, table=table)


def _sentences(parameters: list[Recovered]) -> list[str]:
    """How many of the values were found, and each beside what was planted."""
    values = []
    off = {}
    for parameter in parameters:
        name = parameter.name.partition(",")[0]
        values.append(f"{name} {_value(parameter.found.value, parameter)} for {_value(parameter.planted, parameter)}")
        if parameter.planted:
            off[name] = abs(parameter.found.value / parameter.planted - 1)
    farthest = max(off, key=lambda name: off[name], default="")
    return sentences(
        "planted",
        level=f"{LEVEL:.0%}",
        values=values,
        half=-(-len(values) // 2),
        outside=[parameter.name.partition(",")[0] for parameter in parameters if not parameter.inside],
        farthest=farthest,
        off=off.get(farthest),
    )


def _value(value: float, parameter: Recovered) -> str:
    return f"{value:.3g}{'' if parameter.unit in ('x', '%', '% an hour') else ' '}{parameter.unit}"


def _figure(parameters: list[Recovered]) -> Figure:
    """Recovered over planted, where what was planted is not 0."""
    shown = [parameter for parameter in parameters if parameter.planted]
    points = []
    for place, parameter in enumerate(shown):
        median = parameter.found.value / parameter.planted
        low, high = sorted([parameter.found.low / parameter.planted, parameter.found.high / parameter.planted])
        points.append({"line": "recovered", "x": place, "median": median, "low": low, "high": high})
    rows = pd.DataFrame(points)
    x = Axis("", ticks={float(place): parameter.name.partition(",")[0] for place, parameter in enumerate(shown)})
    y = Axis.around("recovered over planted", rows, 1.0)
    return lines("Recovered over planted", rows, "line", x, y, joined=False, levels=[Level(1.0, "planted")])
