"""Who loses its share of the device, under which scheduler, and whether defragmentation gives it back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fsage.figures import Axis, Level, Lines, Point, Series
from fsage.report.answer import Answer, Card
from fsage.report.section import Data
from fsage.report.words import joined
from fsage.statistics import MARGIN
from fsage.studies.iocontrol.report.hot import moved_share
from fsage.studies.iocontrol.report.rows import (
    AFTER,
    ALONE,
    BEFORE,
    GROUPS,
    HOT,
    SQLITE,
    WEIGHTS,
    Shared,
    against_fair,
    scheduler_label,
    shared,
    victim,
)
from fsage.study.study import Study

PATTERN = "P4"
"""Both groups have the same weight, and group 1's file is in pieces."""
IN_WORDS = {
    WEIGHTS: {"1": "the group that reads the pieces", "2": "its neighbour"},
    SQLITE: {"1": "fio, which reads the pieces", "2": "the SQLite query"},
}
CODES = (
    f"Patterns: {ALONE['2']} is group 2 alone, {ALONE['1']} group 1 alone with a fragmented file. P2 is both groups "
    "with contiguous files, weights 100 and 100; P3 has weights 200 and 100. P4 and P5 are P2 and P3 with a "
    "fragmented file for group 1."
)


def answer(data: Data, study: Study) -> Answer | None:
    """The victim under each scheduler at equal weights, before and after defragmentation."""
    for workload in (WEIGHTS, SQLITE):
        everything = shared(data, workload)
        if mine := [one for one in everything if one.pattern == PATTERN]:
            return _answer(data, mine, everything)
    return None


def _answer(data: Data, mine: Sequence[Shared], everything: Sequence[Shared]) -> Answer:
    said = []
    for stage, opening in (
        (BEFORE, f"While one of two groups reads a file in {mine[0].piece} pieces, at equal weights"),
        _defragmented(data, mine),
    ):
        there = [one for one in mine if one.stage == stage and one.piece == mine[0].piece]
        if parts := [f"{_under(one.scheduler)} {_loses(one, everything)}" for one in there]:
            said.append(f"{opening}: {'; '.join(parts)}.")
    cards = [_card(one, everything) for one in mine if one.stage == BEFORE and one.piece == mine[0].piece]
    return Answer(said, _figure(mine, everything), cards[:4], CODES)


def _defragmented(data: Data, mine: Sequence[Shared]) -> tuple[str, str]:
    """The stage that the study is about, and how it is called: only what is hot was defragmented, if that was tried."""
    if not any(one.stage == HOT for one in mine):
        return AFTER, "After the file was defragmented"
    share = moved_share(data, mine[0].piece)
    cost = "" if share is None else f", which moved {share:.0%} of what the whole file takes"
    return HOT, f"After only what is read of it was defragmented{cost}"


def _under(scheduler: str) -> str:
    return "without a scheduler" if scheduler == "none" else f"under {scheduler_label(scheduler)}"


def _loses(one: Shared, everything: Sequence[Shared]) -> str:
    """'its neighbour loses: it keeps 52% of its fair rate (50 to 55%)', nobody does, or why it is not known."""
    found = victim(one, everything)
    if found.why:
        return f"who loses is not known ({found.why})"
    if not found.victim:
        return f"nobody loses {MARGIN:.0%} or more"
    return f"{IN_WORDS[one.workload][found.victim]} keeps {_kept(one, found.victim, everything)} of its fair rate"


def _kept(one: Shared, group: str, everything: Sequence[Shared]) -> str:
    fair = against_fair(one, group, everything)
    if fair is None or fair.value is None:
        return "not known"
    held = f" ({100 * fair.interval.low:.0f} to {100 * fair.interval.high:.0f}%)" if fair.interval else ""
    return f"{100 * fair.value:.0f}%{held}"


def _card(one: Shared, everything: Sequence[Shared]) -> Card:
    found = victim(one, everything)
    size = "not known" if found.why else f"group {found.victim} loses" if found.victim else "nobody loses"
    kept = joined([f"group {group} {_kept(one, group, everything)}" for group in one.shares])
    return Card(
        f"{scheduler_label(one.scheduler)}, {one.state}",
        size,
        f"Share of the fair rate (the rate alone times the weight's share): {kept}.",
        chance=bool(found.why),
    )


def _short(scheduler: str) -> str:
    return "none" if scheduler == "none" else scheduler_label(scheduler)


def _figure(mine: Sequence[Shared], everything: Sequence[Shared]) -> Lines | None:
    ordered = sorted(mine, key=lambda one: list(dict.fromkeys(each.scheduler for each in mine)).index(one.scheduler))
    names = {float(place): f"{_short(one.scheduler)}\n{one.stage}" for place, one in enumerate(ordered)}
    series = []
    for group in GROUPS:
        found = [(place, against_fair(one, group, everything)) for place, one in enumerate(ordered)]
        points = tuple(
            Point(
                float(place),
                fair.value,
                fair.interval.low if fair.interval else None,
                fair.interval.high if fair.interval else None,
                fair.n,
                name=names[float(place)].replace("\n", " "),
            )
            for place, fair in found
            if fair and fair.value is not None
        )
        series.append(Series(f"group {group}: {IN_WORDS[mine[0].workload][group]}", points, joined=False))
    ends = [one for each in series for point in each.points for one in (point.low or point.y, point.high or point.y)]
    if not ends:
        return None
    powers = range(math.floor(math.log2(min(1.0, *ends))), math.ceil(math.log2(max(1.0, *ends))) + 1)
    return Lines(
        "What each group keeps of its fair rate",
        tuple(series),
        Axis("", ticks=names),
        Axis("times its fair rate", ticks={2.0**power: f"{2.0**power:g}" for power in powers}, log=True),
        (Level(1.0),),
    )
