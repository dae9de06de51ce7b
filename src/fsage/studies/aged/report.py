"""Whether replica and original agree, way by way: in their rates, and in what their age costs."""

from __future__ import annotations

import pandas as pd

from fsage.api.report import Answer, Data, Section, View, figures, groups, statistics, words
from fsage.studies.limits import report as limits
from fsage.studies.replica.report import agreement, maps, span

from .recipe import COPIED, JOINED, ORIGINAL

WRITES = "write_bw_mib_s"


def validity(data: Data) -> Section | None:
    """A row for each way and measure: the replica's rate over its original's."""
    table = [["aged by", "rates", "ratio", "verdict"]]
    for (way, measure), factor in _ratios(data, COPIED, ORIGINAL).items():
        table.append([way, groups.Measure.of(measure).plural, span(factor), _verdict(factor)])
    if len(table) == 1:
        return None
    text = (
        "Rates on the replica over those on its original: the median of all pairwise ratios, with the interval that "
        f"inverts the exact rank-sum test. They agree where that lies within {statistics.Ratio.MARGIN:.0%}. Original "
        "and replica have the same free blocks; in place of the original's files large ones hold the others."
    )
    return Section("Does the replica cost what its original does?", text, [], table=table)


def _verdict(factor: statistics.Ratio) -> str:
    """The question here is whether both are alike: a difference that is sure and lies within the margin is none."""
    if factor.alike:
        return f"agree within {statistics.Ratio.MARGIN:.0%}"
    return words.Finding(factor, tested=False).brief()


def costs(data: Data) -> Section | None:
    """What age costs on the original and on its replica, side by side."""
    plots = cost_figures(data)
    if not plots:
        return None
    text = (
        "Rates over those with as much free space in one run (1: age costs nothing), on the original and on its "
        "replica. Where the replica stands for its original, both intervals hold the same values."
    )
    return Section("What age costs, on the original and on its replica", text, plots)


def cost_figures(data: Data) -> list[figures.Figure]:
    """A figure for each measure."""
    age_costs = _costs(data)
    measures = dict.fromkeys(measure for _, measure in age_costs[ORIGINAL])
    return [_figure(measure, age_costs) for measure in measures]


Ratios = dict[tuple[str, str], statistics.Ratio]
"""Way and measure -> a ratio of rates."""


def _costs(data: Data) -> dict[str, Ratios]:
    """The rates of original and replica over those with as much free space in one run."""
    return {holes: _ratios(data, holes, JOINED) for holes in (ORIGINAL, COPIED)}


def _figure(measure: str, age_costs: dict[str, Ratios]) -> figures.Figure:
    ways = list(dict.fromkeys(way for way, _ in age_costs[ORIGINAL]))
    points = []
    for holes, name, apart in ((ORIGINAL, "original", -0.1), (COPIED, "replica", 0.1)):
        for place, way in enumerate(ways):
            if (way, measure) in age_costs[holes]:
                factor = age_costs[holes][way, measure]
                points.append({"line": name, "x": place + apart, "state": way, **groups.plotted(factor)})
    rows = pd.DataFrame(points)
    title = f"{groups.Measure.of(measure).name.capitalize()}s on the aged file system relative to free space in one run"
    x = figures.Axis("aged by", ticks=dict(enumerate(ways)))
    y = figures.Axis.around("ratio of rates", rows, 1.0)
    return figures.lines(title, rows, "line", x, y, joined=False, levels=[figures.Level(1.0)])


def _ratios(data: Data, holes: str, against: str) -> Ratios:
    """Rates at WAY.`holes` over those at WAY.`against`, of the ways that have both."""
    rows = data.table[data.table["main"]]
    samples = {(str(row.state), str(row.measure)): row.units for row in rows.itertuples()}
    result = {}
    for (state, measure), in_state in samples.items():
        way, _, own = state.partition(".")
        reference = samples.get((f"{way}.{against}", measure))
        if own == holes and reference:
            factor = statistics.factor(in_state, reference)
            if factor.value is not None:
                result[way, measure] = factor
    return result


CODES = (
    "State churn.original was aged by use: its files came and went. State churn.copied has the same free space, and "
    "large files hold the rest. State churn.joined has as much free space in one extent."
)


def answer(data: Data) -> Answer | None:
    """Whether replicas agree with their originals, and what age costs on either."""
    rates = _ratios(data, COPIED, ORIGINAL)
    age_costs = _costs(data)
    in_both = [way for way, measure in age_costs[ORIGINAL] if measure == WRITES and (way, measure) in age_costs[COPIED]]
    said = words.sentences(
        "aged/answer",
        rates=rates,
        others=[
            (way, groups.Measure.of(measure).plural, words.times(factor))
            for (way, measure), factor in rates.items()
            if not factor.alike
        ],
        margin=f"{statistics.Ratio.MARGIN:.0%}",
        ways=in_both,
        costs=age_costs,
        writes=WRITES,
    )
    if not said:
        return None
    return Answer(said, next(iter(cost_figures(data)), None), data.cards, CODES)


VIEW = View(
    (validity, costs, maps, agreement, limits.section), reference="as much free space in one run", answer=answer
)
