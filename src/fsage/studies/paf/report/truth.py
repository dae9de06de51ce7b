"""What was published, and what was planted, beside what was measured.

What was published of populate and fragment beside what was measured, and what is not alike in the two.

Planted values beside recovered ones, where the target's disk has any.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fsage.analysis.comparisons import Comparison, of_state
from fsage.analysis.groups import plural
from fsage.analysis.truth import LEVEL, Inseparable, Recovered, recovered
from fsage.analysis.words import Finding, joined
from fsage.figures import Axis, Figure, Level, Lines, Point, Series
from fsage.report.parts import Data, Section
from fsage.studies.paf.report.rows import axes_of, largest_transfer

SHOWN = "The PaF slides (Kaitschuck, Seagate) show a loss of 2-35%, writes more than reads"
SHARE = 11
"""Percent of the targets that the source measured: 10 GiB for each of 256 tasks, of 22.6 TiB."""


def published(data: Data, compared: Sequence[Comparison]) -> list[str]:
    """The loss of fullness and fragmentation together, which is what was published, and what is not alike."""
    fragmented = [name for pair in compared if (axes := axes_of(data, name := pair.state)) and axes[1]]
    together = [text for state in dict.fromkeys(fragmented) if (text := _together(data, state))]
    if not together:
        return []
    sentences = [f"Here it is {text}" for text in together]
    return [" ".join([f"{SHOWN}, of fullness and fragmentation together.", *sentences]), *_unlike(data.frame)]


def _together(data: Data, state: str) -> str:
    """'80.50 against 10.00: writes 17% slower (17 to 19%). Reads 18% slower (18 to 19%).'."""
    rows = of_state(largest_transfer(data.table), state)
    rows = [row for row in rows.itertuples() if row.to_clean is not None and row.to_clean.interval]
    if not rows:
        return ""
    parts = [f"{plural(row.measure)} {Finding(row.to_clean, tested=False).brief()}" for row in rows]
    first, *others = parts
    clean = rows[0].clean
    if "@" not in state:
        clean = clean.partition("@")[0]
    return " ".join([f"{state} against {clean}: {first}.", *(f"{part.capitalize()}." for part in others)])


def _unlike(frame: pd.DataFrame) -> list[str]:
    """The device, and how much was measured: who writes little may find whole runs where who writes much cannot."""
    taken = frame[frame["status"] == "valid"]
    sentences = []
    if "IOCost" in " ".join(taken["device_model"].dropna().unique()):
        sentences.append(
            "This modelled device charges for bytes, requests and jumps of more than 16 MiB. It has no slower inner "
            "tracks, so fullness costs here only what the file system does about it."
        )
    shares = (100 * taken["measured_bytes"] / taken["capacity_bytes"]).dropna()
    if len(shares):
        ends = list(dict.fromkeys(f"{end:.2g}" for end in (shares.min(), shares.max())))
        sentences.append(
            f"Each sample wrote {' to '.join(ends)}% of the capacity (PaF slides: {SHARE}%). Study amount shows what "
            "that changes, and docs/howto/reading.md how to examine an unexpected result."
        )
    return sentences


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
        f"nothing on it. Each interval holds {LEVEL:.0%}, so of {len(parameters)} values one may be outside by chance. "
        "The study fails where one is outside of its interval adjusted over all of them (Holm)."
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
    if outside:
        warnings = [f"Outside of its interval: {', '.join(outside)}."]
    else:
        warnings = []
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
    if outside:
        most = f"{len(parameters) - len(outside)} of"
    else:
        most = "All"
    values = [
        f"{parameter.name.partition(',')[0]} {_value(parameter.found.value, parameter)} "
        f"for {_value(parameter.planted, parameter)}"
        for parameter in parameters
    ]
    half = -(-len(values) // 2)
    sentences = [
        f"{most} {len(parameters)} planted values lie in the {LEVEL:.0%} intervals of what was found. "
        f"Found for planted are {joined(values[:half])}. Further ones are {joined(values[half:])}."
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
