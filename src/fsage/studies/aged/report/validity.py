"""Whether replica and original agree, way by way: in their rates, and in what their age costs."""

from __future__ import annotations

from fsage.analysis.groups import measure_label, plural
from fsage.figures import Axis, Figure, Level, Lines, Point, Series
from fsage.report.section import Data, Section
from fsage.report.words import Finding, joined, span
from fsage.statistics import MARGIN, Ratio, ratio
from fsage.studies.aged.recipe import COPIED, JOINED, ORIGINAL

LEAST = 0.1
WRITES = "write_bw_mib_s"


def validity(data: Data) -> Section | None:
    """A row for each way and measure: the replica's rate over its original's."""
    rows = [
        [way, plural(measure), span(found), _verdict(found)] for way, measure, found in _ratios(data, COPIED, ORIGINAL)
    ]
    if not rows:
        return None
    text = (
        "Rates on the replica over those on its original: the median of all pairwise ratios, with the interval that "
        f"inverts the exact rank-sum test. They agree where that lies within {MARGIN:.0%}. Original and "
        "replica have the same free blocks; in place of the original's files large ones hold the others."
    )
    return Section(
        "Does the replica cost what its original does?",
        text,
        [],
        table=[["aged by", "rates", "ratio", "verdict"], *rows],
    )


def _verdict(found: Ratio) -> str:
    """Alike is what is asked here: a difference that is sure and lies within the margin is none."""
    return f"agree within {MARGIN:.0%}" if found.alike else Finding(found, tested=False).brief()


def agreed(data: Data) -> list[str]:
    """A sentence on which rates agree, and which are not known to or do not; nothing where none was measured."""
    found = _ratios(data, COPIED, ORIGINAL)
    other = [f"{plural(measure)} among {way} ({span(one)}x)" for way, measure, one in found if not one.alike]
    if not found:
        return []
    alike = f"A replica costs what its original does, within {MARGIN:.0%}, in {len(found) - len(other)} of {len(found)}"
    return [f"{alike} rates; that is not shown of {joined(other)}." if other else f"{alike} rates."]


def losses(data: Data) -> list[str]:
    """A sentence on what age costs writes, on the originals and on their replicas."""
    found = _costs(data)
    ways = [way for way, measure in found[ORIGINAL] if measure == WRITES and (way, measure) in found[COPIED]]
    if not ways:
        return []
    lost = {holes: joined([_lost(found[holes][way, WRITES]) for way in ways]) for holes in (ORIGINAL, COPIED)}
    return [
        f"Aged by {joined(ways)}, writing loses {lost[ORIGINAL]} of its rate with as much free space in one run on the "
        f"original{'s' * (len(ways) > 1)}, and {lost[COPIED]} on the replica{'s' * (len(ways) > 1)}."
    ]


def costs(data: Data) -> Section | None:
    """What age costs on the original and on its replica, side by side."""
    figures = cost_figures(data)
    if not figures:
        return None
    text = (
        "Rates over those with as much free space in one run (1: age costs nothing), on the original and on its "
        "replica. Where the replica stands for its original, both intervals hold the same values."
    )
    return Section("What age costs, on the original and on its replica", text, figures)


def cost_figures(data: Data) -> list[Figure]:
    """A figure for each measure."""
    found = _costs(data)
    return [_figure(measure, found) for measure in dict.fromkeys(measure for _, measure in found[ORIGINAL])]


def _costs(data: Data) -> dict[str, dict[tuple[str, str], Ratio]]:
    """Original and replica -> (way, measure) -> rates over those with as much free space in one run."""
    return {
        holes: {(way, measure): one for way, measure, one in _ratios(data, holes, JOINED)}
        for holes in (ORIGINAL, COPIED)
    }


def _lost(one: Ratio) -> str:
    return f"{100 * (1 - (one.value or 0)):.0f}%"


def _figure(measure: str, found: dict[str, dict[tuple[str, str], Ratio]]) -> Figure:
    ways = list(dict.fromkeys(way for way, _ in found[ORIGINAL]))
    series = []
    for number, (holes, name) in enumerate(((ORIGINAL, "original"), (COPIED, "replica"))):
        points = [
            _point(place + 0.1 * (2 * number - 1), found[holes][way, measure], way)
            for place, way in enumerate(ways)
            if (way, measure) in found[holes]
        ]
        series.append(Series(name, tuple(points), joined=False))
    ends = [
        end for one in series for point in one.points for end in (point.low, point.high, point.y) if end is not None
    ]
    low, high = min([1 - LEAST, *ends]), max([1.0, *ends])
    return Lines(
        f"{measure_label(measure)[0].capitalize()}s on the aged file system over those with free space in one run",
        tuple(series),
        Axis("aged by", ticks={float(place): way for place, way in enumerate(ways)}),
        Axis("ratio of rates", (low - 0.02, high + 0.02)),
        (Level(1.0),),
    )


def _point(x: float, one: Ratio, name: str) -> Point:
    assert one.value is not None
    held = one.interval
    return Point(x, one.value, held.low if held else None, held.high if held else None, one.n, (), name)


def _ratios(data: Data, holes: str, against: str) -> list[tuple[str, str, Ratio]]:
    """(way, measure, rates at WAY.`holes` over those at WAY.`against`), of the ways that have both."""
    rows = data.table[data.table["main"]]
    samples = {(str(row.state), str(row.measure)): row.samples for row in rows.itertuples()}
    found = []
    for (state, measure), here in samples.items():
        way, _, own = state.partition(".")
        there = samples.get((f"{way}.{against}", measure))
        if own == holes and there and (one := ratio(here, there)).value is not None:
            found.append((way, measure, one))
    return found
