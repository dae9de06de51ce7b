"""What each group reads, beside what its weight asks for and beside its fair rate; what fragmentation alone changes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

import pandas as pd

from fsage.figures import Axis, Figure, Lines, limits, series
from fsage.report.section import Data, Section
from fsage.statistics import coefficient_of_variation, ratio
from fsage.studies.iocontrol.report.rows import (
    AFTER,
    ALONE,
    BEFORE,
    CALLED,
    GROUPS,
    HOT,
    PRIMES,
    SQLITE,
    Shared,
    against_fair,
    interval_text,
    points,
    scheduler_label,
    shared,
)
from fsage.studies.iocontrol.weighted import PATTERNS

WORDS = {BEFORE: "before defragmentation", HOT: "what is hot was defragmented", AFTER: "after defragmentation"}


def sharing(data: Data, workload: str) -> Section | None:
    """Bandwidths of both groups by pattern and stage, one panel for each scheduler and size of pieces."""
    everything = shared(data, workload)
    if not everything:
        return None
    pieces = list(dict.fromkeys(case.piece for case in everything))
    figures: list[Figure] = []
    for scheduler, piece in dict.fromkeys((case.scheduler, case.piece) for case in everything):
        cases = [case for case in everything if (case.scheduler, case.piece) == (scheduler, piece)]
        places = {(case.pattern, case.stage): float(place) for place, case in enumerate(cases)}
        drawn = {group: points(cases, places, partial(_rates, group)) for group in GROUPS}
        who = "SQLite and fio" if workload == SQLITE else "both groups"
        title = f"Bandwidth of {who}, {scheduler_label(scheduler)}"
        ticks = {place: pattern + PRIMES[stage] for (pattern, stage), place in places.items()}
        figures.append(
            Lines(
                f"{title}, pieces of {piece}" if len(pieces) > 1 else title,
                tuple(series(CALLED[workload][group], rows, joined=False) for group, rows in drawn.items()),
                Axis(axis_of_patterns(cases), ticks=ticks),
                Axis("read bandwidth, MiB/s", limits(pd.concat(drawn.values()))),
                note=cases[0].charged,
            )
        )
    two = CALLED[workload]
    files = "what it asks lies whole" if workload == SQLITE else "both read whole files"
    text = (
        f"{ALONE['2']}: {two['2']} alone; P2: both, {files}, weights 100 and 100; P3: 200 and 100; P4 and P5: as "
        f"these, but the file of {two['1']} is fragmented; {ALONE['1']}: {two['1']} alone, its file fragmented. "
        "All groups are counted by the kernel over the same span of time, in which all of them run."
    )
    return Section("What each group reads" + " beside SQLite" * (workload == SQLITE), text, figures)


def axis_of_patterns(cases: list[Shared]) -> str:
    """What an axis of patterns says of itself, and of the stages that are marked in it."""
    stages = dict.fromkeys(case.stage for case in cases)
    marked = ", ".join(f"{PRIMES[stage]}: {WORDS[stage]}" for stage in stages if PRIMES[stage])
    return f"pattern ({marked})" if marked else "pattern"


def _rates(group: str, case: Shared) -> list[float]:
    return case.bw_mib_s.get(group, [])


NONE = "\u2013"


def fair(data: Data, workload: str) -> Section | None:
    """The table."""
    everything = shared(data, workload)
    pairs = [case for case in everything if len(case.shares) == len(GROUPS)]
    if not pairs:
        return None
    heads = ["scheduler", "state", "pattern", "MiB/s", "I/Os", "KiB each", "ratio", "CoV of it"]
    table = [[*heads, *(f"group {group} to fair" for group in GROUPS)], *(_row(pair, everything) for pair in pairs)]
    called = " and ".join(CALLED[workload].values())
    text = (
        f"Medians of {called}, in that order; I/Os are those that the kernel counted in a sample. The ratio is "
        "group 1's rate over group 2's. Fair as above, the median of all pairwise ratios with its interval."
    )
    return Section("Rates and fair rates" + " beside SQLite" * (workload == SQLITE), text, [], table=table)


def _row(case: Shared, everything: Sequence[Shared]) -> list[str]:
    spread = coefficient_of_variation(case.ratios)
    weights = ":".join(str(reader.weight) for reader in PATTERNS[case.pattern].values())
    return [
        scheduler_label(case.scheduler),
        case.state,
        f"{case.pattern} ({weights})",
        " and ".join(f"{median(case.bw_mib_s[group]):.4g}" for group in GROUPS),
        " and ".join(f"{median(case.ios[group]):,.0f}" for group in GROUPS),
        " and ".join(_size(median(case.io_kib[group])) for group in GROUPS),
        f"{median(case.ratios):.3g}",
        NONE if spread is None else f"{spread:.1%}",
        *(interval_text(against_fair(case, group, everything)) for group in GROUPS),
    ]


def _size(kib: float) -> str:
    return f"{kib:.3g}" if kib < 1000 else f"{kib:.0f}"


AGAINST = {"P4": "P2", "P5": "P3"}


def steps(data: Data, workload: str) -> Section | None:
    """A table: each group's rate with the file in pieces over its rate with whole files, before and after."""
    everything = shared(data, workload)
    by_key = {(case.scheduler, case.piece, case.stage, case.pattern): case for case in everything}
    rows = []
    for case in everything:
        if case.pattern not in AGAINST:
            continue
        for stage in (case.stage, BEFORE):  # whole files are the same before and after
            whole = by_key.get((case.scheduler, case.piece, stage, AGAINST[case.pattern]))
            if whole:
                factor_texts = [interval_text(ratio(case.bw_mib_s[name], whole.bw_mib_s[name])) for name in GROUPS]
                rows.append(
                    [scheduler_label(case.scheduler), case.state, f"{case.pattern} / {whole.pattern}", *factor_texts]
                )
                break
    if not rows:
        return None
    text = (
        f"P4 differs from P2, and P5 from P3, in that {CALLED[workload]['1']} reads the fragmented file. A ratio is "
        "the median of all pairwise ones with the interval that inverts the exact rank-sum test."
    )
    heads = ["scheduler", "state", "patterns", *CALLED[workload].values()]
    return Section(
        "What the pieces do to each group" + " beside SQLite" * (workload == SQLITE), text, [], table=[heads, *rows]
    )
