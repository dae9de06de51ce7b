"""Who loses its share of the device, under which scheduler, and whether defragmentation gives it back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import pandas as pd

from fsage.analysis.groups import of_ratio
from fsage.analysis.words import joined
from fsage.figures import Axis, Level, Lines, ends_of, lines
from fsage.report.parts import Answer, Card, Data, View
from fsage.statistics import MARGIN
from fsage.studies.iocontrol.report.rates import fair, queries, sharing, steps
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
from fsage.studies.iocontrol.report.victims import hot, moved_share, victims
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
        cases = [case for case in everything if case.pattern == PATTERN]
        if cases:
            return _answer(data, cases, everything)
    return None


def _answer(data: Data, shareds: Sequence[Shared], everything: Sequence[Shared]) -> Answer:
    sentences = []
    for stage, opening in (
        (BEFORE, f"One of two groups reads a file in {shareds[0].piece} pieces, at equal weights"),
        _defragmented(data, shareds),
    ):
        in_stage = [case for case in shareds if case.stage == stage and case.piece == shareds[0].piece]
        parts = [f"{_under(case.scheduler)} {_loses(case, everything)}" for case in in_stage]
        if parts:
            sentences.append(" ".join(f"{part}." for part in (opening, *parts)))
    cards = [_card(case, everything) for case in shareds if case.stage == BEFORE and case.piece == shareds[0].piece]
    return Answer(sentences, _figure(shareds, everything), cards[:4], CODES)


def _defragmented(data: Data, shareds: Sequence[Shared]) -> tuple[str, str]:
    """The stage that the study is about, and how it is called: only what is hot was defragmented, if that was tried."""
    if not any(case.stage == HOT for case in shareds):
        return AFTER, "Then the file was defragmented"
    share = moved_share(data, shareds[0].piece)
    if share is None:
        cost = ""
    else:
        cost = f", which moved {share:.0%} of what the whole file takes"
    return HOT, f"Then only what is read of it was defragmented{cost}"


def _under(scheduler: str) -> str:
    if scheduler == "none":
        return "Without a scheduler"
    return f"Under {scheduler_label(scheduler)}"


def _loses(case: Shared, everything: Sequence[Shared]) -> str:
    """'its neighbour loses: it keeps 52% of its fair rate (50 to 55%)', nobody does, or why it is not known."""
    verdict = victim(case, everything)
    if verdict.why:
        return f"who loses is not known ({verdict.why})"
    if not verdict.victim:
        return f"nobody loses {MARGIN:.0%} or more"
    return f"{IN_WORDS[case.workload][verdict.victim]} keeps {_kept(case, verdict.victim, everything)} of its fair rate"


def _kept(case: Shared, group: str, everything: Sequence[Shared]) -> str:
    fair = against_fair(case, group, everything)
    if fair is None or fair.value is None:
        return "not known"
    if fair.interval:
        held = f" ({100 * fair.interval.low:.0f} to {100 * fair.interval.high:.0f}%)"
    else:
        held = ""
    return f"{100 * fair.value:.0f}%{held}"


def _card(case: Shared, everything: Sequence[Shared]) -> Card:
    verdict = victim(case, everything)
    if verdict.why:
        size = "not known"
    else:
        size = f"group {verdict.victim} loses" if verdict.victim else "nobody loses"
    kept = joined([f"group {group} {_kept(case, group, everything)}" for group in case.shares])
    return Card(
        f"{scheduler_label(case.scheduler)}, {case.state}",
        size,
        f"Share of the fair rate (the rate alone times the weight's share): {kept}.",
        chance=bool(verdict.why),
    )


def _short(scheduler: str) -> str:
    if scheduler == "none":
        return "none"
    return scheduler_label(scheduler)


def _figure(shareds: Sequence[Shared], everything: Sequence[Shared]) -> Lines | None:
    schedulers = list(dict.fromkeys(case.scheduler for case in shareds))
    cases = sorted(shareds, key=lambda case: schedulers.index(case.scheduler))
    rows = pd.DataFrame(
        {"group": group, "x": place, "state": f"{_short(case.scheduler)} {case.stage}"} | of_ratio(factor)
        for group in GROUPS
        for place, case in enumerate(cases)
        if (factor := against_fair(case, group, everything)) and factor.value is not None
    )
    if rows.empty:
        return None
    ends = [1.0, *ends_of(rows)]
    powers = range(math.floor(math.log2(min(ends))), math.ceil(math.log2(max(ends))) + 1)
    return lines(
        "What each group keeps of its fair rate",
        rows,
        "group",
        Axis("", ticks={float(place): f"{_short(case.scheduler)}\n{case.stage}" for place, case in enumerate(cases)}),
        Axis("times its fair rate", ticks={2.0**power: f"{2.0**power:g}" for power in powers}, log=True),
        labels={group: f"group {group}: {words}" for group, words in IN_WORDS[cases[0].workload].items()},
        joined=False,
        levels=[Level(1.0)],
    )


VIEW = View(
    (
        hot,
        *(partial(section, workload=WEIGHTS) for section in (victims, fair, sharing, steps)),
        partial(victims, workload=SQLITE),
        queries,
        *(partial(section, workload=SQLITE) for section in (fair, sharing, steps)),
    ),
    reference="the same cell before defragmentation",
    answer=answer,
)
