"""What each group reads beside its fair rate, what a query takes, and what fragmentation alone changes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fsage.analysis.groups import of_samples
from fsage.analysis.words import NONE, held, times
from fsage.figures import Axis, limits, limits_from_zero, lines
from fsage.report.parts import Data, Section
from fsage.statistics import coefficient_of_variation, ratio
from fsage.studies.iocontrol.report.rows import (
    ALONE,
    BEFORE,
    BESIDE,
    CALLED,
    GROUPS,
    SQLITE,
    Shared,
    against_fair,
    drawn,
    patterns_axis,
    scheduler_label,
    shared,
)
from fsage.studies.iocontrol.weighted import PATTERNS

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
    figures = []
    for scheduler, piece in dict.fromkeys((case.scheduler, case.piece) for case in everything):
        cases = [case for case in everything if (case.scheduler, case.piece) == (scheduler, piece)]
        keys = [(case.pattern, case.stage) for case in cases]
        rows = drawn(((two[group], case, case.bw_mib_s.get(group, [])) for group in GROUPS for case in cases), keys)
        figures.append(
            lines(
                f"Bandwidth of {who}, {scheduler_label(scheduler)}" + f", pieces of {piece}" * several,
                rows,
                "line",
                patterns_axis(cases, keys),
                Axis("read bandwidth, MiB/s", limits(rows)),
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
    return Section(f"What each group reads{BESIDE[workload]}", text, figures)


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
        *(times(against_fair(case, group, everything)) for group in GROUPS),
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
            factors = [times(ratio(case.bw_mib_s[name], whole.bw_mib_s[name])) for name in GROUPS]
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
    figures = []
    for piece in pieces:
        cases = [case for case in everything if case.piece == piece]
        in_order = sorted(cases, key=lambda case: (case.stage != BEFORE, case.pattern))
        keys = list(dict.fromkeys((case.pattern, case.stage) for case in in_order))
        rows = drawn(((scheduler_label(case.scheduler), case, case.query_seconds) for case in cases), keys)
        title = "Time of a query" + f", pieces of {piece}" * (len(pieces) > 1)
        y = Axis("one query, s", limits_from_zero(rows))
        figures.append(lines(title, rows, "line", patterns_axis(cases, keys), y, joined=False))
    text = (
        "The query reads the whole table of a contiguous database, cold: its pages are dropped from memory before "
        "each query, and that is verified. Queries are repeated until a sample took a second. Each result is checked "
        f"against the database's seed. The column alone divides by {ALONE['2']}; the column contiguous divides P4 by "
        "P2, and P5 by P3. A ratio is the median of all pairwise ratios, with the interval that inverts the exact "
        "rank-sum test."
    )
    return Section("The query beside random reads", text, figures, table=table)


def _query_row(case: Shared, everything: Sequence[Shared]) -> list[str]:
    row = of_samples(case.query_seconds)
    return [
        scheduler_label(case.scheduler),
        case.state,
        case.pattern,
        f"{row['median']:.3g}{held(row['low'], row['high'], 3)}",
        _query_against(case, ALONE["2"], everything),
        _query_against(case, WHOLE_FILES.get(case.pattern), everything),
        f"{median(case.bw_mib_s['1']):.4g}" if "1" in case.bw_mib_s else NONE,
    ]


def _query_against(case: Shared, pattern: str | None, everything: Sequence[Shared]) -> str:
    """The query's time over that in another pattern, which is the same before and after where all files are whole."""
    for other in everything:
        if (other.scheduler, other.piece, other.pattern) == (case.scheduler, case.piece, pattern) and other is not case:
            return times(ratio(case.query_seconds, other.query_seconds))
    return NONE
