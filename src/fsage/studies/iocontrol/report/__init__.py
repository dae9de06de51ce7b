"""Who loses its share of the device, under which scheduler, and whether defragmentation gives it back.

What each group reads beside its fair rate, what a query takes, and what fragmentation alone changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

import pandas as pd

from fsage.api.report import Answer, Card, Data, Section, View, figures, groups, statistics, words

from ..weighted import PATTERNS
from .rows import (
    AFTER,
    ALONE,
    BEFORE,
    BESIDE,
    CALLED,
    GROUPS,
    HOT,
    SQLITE,
    WEIGHTS,
    Shared,
    against_fair,
    drawn,
    patterns_axis,
    scheduler_label,
    shared,
    victim,
)
from .victims import hot, moved_share, victims

WHOLE_FILES = {"P4": "P2", "P5": "P3"}
"""The pattern with whole files, by the one with a file in pieces."""


def sharing(data: Data, workload: str) -> Section | None:
    """Bandwidths of both groups by pattern and stage, one panel for each scheduler and size of pieces."""
    everything = shared(data, workload)
    if not everything:
        return None
    several = len({case.piece for case in everything}) > 1
    if workload == SQLITE:
        who = "SQLite and fio"
    else:
        who = "both groups"
    two = CALLED[workload]
    plots = []
    for scheduler, piece in dict.fromkeys((case.scheduler, case.piece) for case in everything):
        cases = [case for case in everything if (case.scheduler, case.piece) == (scheduler, piece)]
        keys = [(case.pattern, case.stage) for case in cases]
        rows = drawn(((two[group], case, case.bw_mib_s.get(group, [])) for group in GROUPS for case in cases), keys)
        plots.append(
            figures.lines(
                f"Bandwidth of {who}, {scheduler_label(scheduler)}" + f", pieces of {piece}" * several,
                rows,
                "line",
                patterns_axis(cases, keys),
                figures.Axis.around("read bandwidth, MiB/s", rows),
                joined=False,
                note=cases[0].charged,
            )
        )
    if workload == SQLITE:
        files = "what it asks lies whole"
    else:
        files = "both read whole files"
    text = (
        f"{ALONE['2']} is {two['2']} alone. P2 is both, and {files}, with weights 100 and 100. P3 has 200 and 100. P4 "
        f"and P5 are as these, but the file of {two['1']} is fragmented. {ALONE['1']} is {two['1']} alone, its file "
        "fragmented. "
        "All groups are counted by the kernel over the same span of time, in which all of them run."
    )
    return Section(f"What each group reads{BESIDE[workload]}", text, plots)


def fair(data: Data, workload: str) -> Section | None:
    """The table."""
    everything = shared(data, workload)
    pairs = [case for case in everything if len(case.shares) == len(GROUPS)]
    if not pairs:
        return None
    heads = ["scheduler", "state", "pattern", "MiB/s", "I/Os", "KiB each", "ratio", "CoV of it"]
    table = [
        [*heads, *(f"group {group} to fair" for group in GROUPS)],
        *(_fair_row(pair, everything) for pair in pairs),
    ]
    called = " and ".join(CALLED[workload].values())
    text = (
        f"Medians of {called}, in that order; I/Os are those that the kernel counted in a sample. The ratio is "
        "group 1's rate over group 2's. Fair as above, the median of all pairwise ratios with its interval."
    )
    return Section(f"Rates and fair rates{BESIDE[workload]}", text, [], table=table)


def _fair_row(case: Shared, everything: Sequence[Shared]) -> list[str]:
    spread = statistics.summarise(case.ratios).cov
    weights = ":".join(str(reader.weight) for reader in PATTERNS[case.pattern].values())
    return [
        scheduler_label(case.scheduler),
        case.state,
        f"{case.pattern} ({weights})",
        " and ".join(f"{median(case.bw_mib_s[group]):.4g}" for group in GROUPS),
        " and ".join(f"{median(case.ios[group]):,.0f}" for group in GROUPS),
        " and ".join(_size(median(case.io_kib[group])) for group in GROUPS),
        f"{median(case.ratios):.3g}",
        Section.NONE if spread is None else f"{spread:.1%}",
        *(words.times(against_fair(case, group, everything)) for group in GROUPS),
    ]


def _size(kib: float) -> str:
    if kib < 1000:
        return f"{kib:.3g}"
    return f"{kib:.0f}"


def steps(data: Data, workload: str) -> Section | None:
    """A table: each group's rate with the file in pieces over its rate with whole files, before and after."""
    everything = shared(data, workload)
    by_key = {(case.scheduler, case.piece, case.stage, case.pattern): case for case in everything}
    rows = []
    for case in everything:
        whole_pattern = WHOLE_FILES.get(case.pattern)
        keys = ((case.scheduler, case.piece, stage, whole_pattern) for stage in (case.stage, BEFORE))
        whole = next((by_key[key] for key in keys if key in by_key), None)
        if whole:  # they are the same before and after
            factors = [words.times(statistics.ratio(case.bw_mib_s[name], whole.bw_mib_s[name])) for name in GROUPS]
            rows.append([scheduler_label(case.scheduler), case.state, f"{case.pattern} / {whole_pattern}", *factors])
    if not rows:
        return None
    text = (
        f"P4 differs from P2, and P5 from P3, in that {CALLED[workload]['1']} reads the fragmented file. A ratio is "
        "the median of all pairwise ones with the interval that inverts the exact rank-sum test."
    )
    heads = ["scheduler", "state", "patterns", *CALLED[workload].values()]
    return Section(f"What the pieces do to each group{BESIDE[workload]}", text, [], table=[heads, *rows])


def queries(data: Data) -> Section | None:
    """A table of query times, and a panel of them for each size of pieces with all schedulers in it."""
    everything = [case for case in shared(data, SQLITE) if case.query_seconds]
    if not everything:
        return None
    heads = ["scheduler", "state", "pattern", "query, s", "to alone", "to whole files", f"{CALLED[SQLITE]['1']}, MiB/s"]
    table = [heads, *(_query_row(case, everything) for case in everything)]
    pieces = list(dict.fromkeys(case.piece for case in everything))
    plots = []
    for piece in pieces:
        cases = [case for case in everything if case.piece == piece]
        in_order = sorted(cases, key=lambda case: (case.stage != BEFORE, case.pattern))
        keys = list(dict.fromkeys((case.pattern, case.stage) for case in in_order))
        rows = drawn(((scheduler_label(case.scheduler), case, case.query_seconds) for case in cases), keys)
        title = "Time of a query" + f", pieces of {piece}" * (len(pieces) > 1)
        y = figures.Axis.from_zero("one query, s", rows)
        plots.append(figures.lines(title, rows, "line", patterns_axis(cases, keys), y, joined=False))
    text = (
        "The query reads the whole table of a contiguous database, cold: its pages are dropped from memory before "
        "each query, and that is verified. Queries are repeated until a sample took a second. Each result is checked "
        f"against the database's seed. The column alone divides by {ALONE['2']}; the column contiguous divides P4 by "
        "P2, and P5 by P3. A ratio is the median of all pairwise ratios, with the interval that inverts the exact "
        "rank-sum test."
    )
    return Section("The query beside random reads", text, plots, table=table)


def _query_row(case: Shared, everything: Sequence[Shared]) -> list[str]:
    row = groups.plotted(case.query_seconds)
    return [
        scheduler_label(case.scheduler),
        case.state,
        case.pattern,
        f"{row['median']:.3g}{words.bounds(row['low'], row['high'], 3)}",
        _query_against(case, ALONE["2"], everything),
        _query_against(case, WHOLE_FILES.get(case.pattern), everything),
        f"{median(case.bw_mib_s['1']):.4g}" if "1" in case.bw_mib_s else Section.NONE,
    ]


def _query_against(case: Shared, pattern: str | None, everything: Sequence[Shared]) -> str:
    """The query's time over that in another pattern, which is the same before and after where all files are whole."""
    for other in everything:
        if (other.scheduler, other.piece, other.pattern) == (case.scheduler, case.piece, pattern) and other is not case:
            return words.times(statistics.ratio(case.query_seconds, other.query_seconds))
    return Section.NONE


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


def answer(data: Data) -> Answer | None:
    """The victim under each scheduler at equal weights, before and after defragmentation."""
    for workload in (WEIGHTS, SQLITE):
        everything = shared(data, workload)
        cases = [case for case in everything if case.pattern == PATTERN]
        if cases:
            return _answer(data, cases, everything)
    return None


def _answer(data: Data, shareds: Sequence[Shared], everything: Sequence[Shared]) -> Answer:
    piece = shareds[0].piece
    of_piece = [case for case in shareds if case.piece == piece]
    hot_was_tried = any(case.stage == HOT for case in shareds)
    verdicts: dict[str, list[tuple[str, dict[str, str | None]]]] = {BEFORE: [], HOT: [], AFTER: []}
    for case in of_piece:
        group, why = victim(case, everything)
        kept = _kept(case, group, everything) if group else None
        verdicts[case.stage].append((case.scheduler, {"victim": group, "why": why, "kept": kept}))
    said = words.sentences(
        "iocontrol/answer",
        piece=piece,
        before=verdicts[BEFORE],
        after=verdicts[HOT if hot_was_tried else AFTER],
        hot=hot_was_tried,
        moved=moved_share(data, piece),
        who=IN_WORDS[shareds[0].workload],
        label=scheduler_label,
        margin=f"{statistics.Ratio.MARGIN:.0%}",
    )
    cards = [_card(case, everything) for case in of_piece if case.stage == BEFORE]
    return Answer(said, _figure(shareds, everything), cards[:4], CODES)


def _kept(case: Shared, group: str, everything: Sequence[Shared]) -> str:
    fair = against_fair(case, group, everything)
    if fair is None or fair.value is None:
        return "not known"
    if fair.interval:
        interval = f" ({100 * fair.interval.low:.0f} to {100 * fair.interval.high:.0f}%)"
    else:
        interval = ""
    return f"{100 * fair.value:.0f}%{interval}"


def _card(case: Shared, everything: Sequence[Shared]) -> Card:
    verdict = victim(case, everything)
    if verdict.why:
        size = "not known"
    else:
        size = f"group {verdict.victim} loses" if verdict.victim else "nobody loses"
    kept = words.joined([f"group {group} {_kept(case, group, everything)}" for group in case.shares])
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


def _figure(shareds: Sequence[Shared], everything: Sequence[Shared]) -> figures.Figure | None:
    schedulers = list(dict.fromkeys(case.scheduler for case in shareds))
    cases = sorted(shareds, key=lambda case: schedulers.index(case.scheduler))
    rows = pd.DataFrame(
        {"group": group, "x": place, "state": f"{_short(case.scheduler)} {case.stage}"} | groups.plotted(factor)
        for group in GROUPS
        for place, case in enumerate(cases)
        if (factor := against_fair(case, group, everything)) and factor.value is not None
    )
    if rows.empty:
        return None
    return figures.lines(
        "What each group keeps of its fair rate",
        rows,
        "group",
        figures.Axis(
            "", ticks={float(place): f"{_short(case.scheduler)}\n{case.stage}" for place, case in enumerate(cases)}
        ),
        figures.Axis.powers("times its fair rate", rows, 1.0),
        labels={group: f"group {group}: {texts}" for group, texts in IN_WORDS[cases[0].workload].items()},
        joined=False,
        levels=[figures.Level(1.0)],
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
