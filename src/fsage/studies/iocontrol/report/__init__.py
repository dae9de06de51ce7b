"""Who loses its share of the device, under which scheduler, and whether defragmentation gives it back.

What each group reads beside its fair rate, what a query takes, and what fragmentation alone changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

import pandas as pd

from fsage.api.model import significant
from fsage.api.report import Answer, Card, Data, Section, View, figures, groups, statistics, words

from ..recipe import AFTER, BEFORE, HOT
from ..weighted import PATTERNS
from .rows import (
    ALONE,
    BESIDE,
    CALLED,
    GROUPS,
    SQLITE,
    WEIGHTS,
    Shared,
    by_panel,
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
    for cases in by_panel(everything):
        keys = [(case.pattern, case.stage) for case in cases]
        taken = []
        for group in GROUPS:
            taken += [(two[group], case, case.bw_mib_s.get(group, [])) for case in cases]
        rows = drawn(taken, keys)
        title = f"Bandwidth of {who}, {cases[0].label}"
        if several:
            title += f", pieces of {cases[0].piece}"
        x = patterns_axis(cases, keys)
        y = figures.Axis.around("read bandwidth, MiB/s", rows)
        plots.append(figures.lines(title, rows, "line", x, y, joined=False, note=cases[0].charged))
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
    table = [[*heads, *map("group {} to fair".format, GROUPS)], *map(_fair_row, pairs)]
    called = " and ".join(CALLED[workload].values())
    text = (
        f"Medians of {called}, in that order; I/Os are those that the kernel counted in a sample. The ratio is "
        "group 1's rate over group 2's. Fair as above, the median of all pairwise ratios with its interval."
    )
    return Section(f"Rates and fair rates{BESIDE[workload]}", text, [], table=table)


def _fair_row(case: Shared) -> list[str]:
    spread = statistics.summarise(case.ratios).cov
    weights = [str(reader.weight) for reader in PATTERNS[case.pattern].values()]
    rates = []
    ios = []
    sizes = []
    to_fair = []
    for group in GROUPS:
        rates.append(significant(median(case.bw_mib_s[group]), 4))
        ios.append(f"{median(case.ios[group]):,.0f}")
        sizes.append(significant(median(case.io_kib[group])))
        to_fair.append(words.times(case.against_fair(group)))
    return [
        case.label,
        case.state,
        f"{case.pattern} ({':'.join(weights)})",
        *map(" and ".join, (rates, ios, sizes)),
        significant(median(case.ratios)),
        Section.NONE if spread is None else f"{spread:.1%}",
        *to_fair,
    ]


def steps(data: Data, workload: str) -> Section | None:
    """A table: each group's rate with the file in pieces over its rate with whole files, before and after."""
    everything = shared(data, workload)
    rows = []
    for case in everything:
        pattern = WHOLE_FILES.get(case.pattern)
        whole = case.in_pattern(pattern, (case.stage, BEFORE))  # they are the same before and after
        if whole:
            factors = [words.times(statistics.ratio(case.bw_mib_s[name], whole.bw_mib_s[name])) for name in GROUPS]
            rows.append([case.label, case.state, f"{case.pattern} / {pattern}", *factors])
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
    table = [heads, *map(_query_row, everything)]
    by_piece: dict[str, list[Shared]] = {}
    for case in everything:
        by_piece.setdefault(case.piece, []).append(case)
    plots = []
    for piece, cases in by_piece.items():
        keys = list(dict.fromkeys((case.pattern, case.stage) for case in cases))
        keys.sort(key=lambda key: (key[1] != BEFORE, key[0]))
        rows = drawn([(case.label, case, case.query_seconds) for case in cases], keys)
        title = "Time of a query"
        if len(by_piece) > 1:
            title += f", pieces of {piece}"
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


def _query_row(case: Shared) -> list[str]:
    row = groups.plotted(case.query_seconds)
    return [
        case.label,
        case.state,
        case.pattern,
        f"{row['median']:.3g}{words.bounds(row['low'], row['high'], 3)}",
        _query_against(case, ALONE["2"]),
        _query_against(case, WHOLE_FILES.get(case.pattern)),
        f"{median(case.bw_mib_s['1']):.4g}" if "1" in case.bw_mib_s else Section.NONE,
    ]


def _query_against(case: Shared, pattern: str | None) -> str:
    """The query's time over that in another pattern, which is the same before and after where all files are whole."""
    for other in case.beside:
        alike = (other.scheduler, other.piece, other.pattern) == (case.scheduler, case.piece, pattern)
        if alike and other is not case and other.query_seconds:
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
        cases = [case for case in shared(data, workload) if case.pattern == PATTERN]
        if cases:
            return _answer(data, cases)
    return None


def _answer(data: Data, shareds: Sequence[Shared]) -> Answer:
    piece = shareds[0].piece
    of_piece = [case for case in shareds if case.piece == piece]
    hot_was_tried = any(case.stage == HOT for case in shareds)
    verdicts: dict[str, list[tuple[str, dict[str, str | None]]]] = {BEFORE: [], HOT: [], AFTER: []}
    for case in of_piece:
        group, why = victim(case)
        kept = _kept(case, group) if group else None
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
    cards = [_card(case) for case in of_piece if case.stage == BEFORE]
    return Answer(said, _figure(shareds), cards[:4], CODES)


def _kept(case: Shared, group: str) -> str:
    fair = case.against_fair(group)
    if fair is None or fair.value is None:
        return "not known"
    if fair.interval:
        interval = f" ({100 * fair.interval.low:.0f} to {100 * fair.interval.high:.0f}%)"
    else:
        interval = ""
    return f"{100 * fair.value:.0f}%{interval}"


def _card(case: Shared) -> Card:
    verdict = victim(case)
    if verdict.why:
        size = "not known"
    else:
        size = f"group {verdict.victim} loses" if verdict.victim else "nobody loses"
    kept = words.joined([f"group {group} {_kept(case, group)}" for group in case.shares])
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


def _figure(shareds: Sequence[Shared]) -> figures.Figure | None:
    order = list(dict.fromkeys(case.scheduler for case in shareds))
    cases = sorted(shareds, key=lambda case: order.index(case.scheduler))
    points = []
    for group in GROUPS:
        for place, case in enumerate(cases):
            factor = case.against_fair(group)
            if factor and factor.value is not None:
                state = f"{_short(case.scheduler)} {case.stage}"
                points.append({"group": group, "x": place, "state": state, **groups.plotted(factor)})
    rows = pd.DataFrame(points)
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
