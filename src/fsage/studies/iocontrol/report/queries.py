"""What a query takes beside random reads, by pattern: the file in pieces is the other group's."""

from __future__ import annotations

from statistics import median

from fsage.figures import Axis, Figure, Lines, series
from fsage.report.section import Data, Section
from fsage.statistics import ratio, summarise
from fsage.studies.iocontrol.report.rows import (
    ALONE,
    BEFORE,
    CALLED,
    GROUPS,
    PRIMES,
    SQLITE,
    Shared,
    interval_text,
    points,
    scheduler_label,
    shared,
)
from fsage.studies.iocontrol.report.sharing import axis_of_patterns

NONE = "\u2013"


def queries(data: Data) -> Section | None:
    """A table of query times, and a panel of them for each size of pieces with all schedulers in it."""
    everything = [case for case in shared(data, SQLITE) if case.query_seconds]
    if not everything:
        return None
    heads = ["scheduler", "state", "pattern", "query, s", "to alone", "to whole files", f"{CALLED[SQLITE]['1']}, MiB/s"]
    table = [heads, *(_row(case, everything) for case in everything)]
    pieces = list(dict.fromkeys(case.piece for case in everything))
    figures: list[Figure] = []
    for piece in pieces:
        cases = [case for case in everything if case.piece == piece]
        keys = list(dict.fromkeys((case.pattern, case.stage) for case in sorted(cases, key=_order)))
        places = {key: float(place) for place, key in enumerate(keys)}
        schedulers = dict.fromkeys(case.scheduler for case in cases)
        drawn = {
            name: points([case for case in cases if case.scheduler == name], places, _times) for name in schedulers
        }
        ticks = {place: pattern + PRIMES[stage] for (pattern, stage), place in places.items()}
        top = max(max(case.query_seconds) for case in cases)
        figures.append(
            Lines(
                "Time of a query" + f", pieces of {piece}" * (len(pieces) > 1),
                tuple(series(scheduler_label(name), rows, joined=False) for name, rows in drawn.items()),
                Axis(axis_of_patterns(cases), ticks=ticks),
                Axis("one query, s", (0.0, 1.08 * top)),
            )
        )
    text = (
        "The query reads the whole table of a contiguous database, cold: its pages are dropped from memory before "
        "each query, and that is verified. Queries are repeated until a sample took a second. Each result is checked "
        f"against the database's seed. The column alone divides by {ALONE['2']}; the column contiguous divides P4 by "
        "P2, and P5 by P3. A ratio is the median of all pairwise ratios, with the interval that inverts the exact "
        "rank-sum test."
    )
    return Section("The query beside random reads", text, figures, table=table)


def _order(case: Shared) -> tuple[bool, str]:
    return case.stage != BEFORE, case.pattern


def _row(case: Shared, everything: list[Shared]) -> list[str]:
    held = summarise(case.query_seconds).interval
    return [
        scheduler_label(case.scheduler),
        case.state,
        case.pattern,
        f"{median(case.query_seconds):.3g}" + (f" ({held.low:.3g} to {held.high:.3g})" if held else ""),
        _against(case, ALONE[GROUPS[1]], everything),
        _against(case, {"P4": "P2", "P5": "P3"}.get(case.pattern), everything),
        f"{median(case.bw_mib_s['1']):.4g}" if "1" in case.bw_mib_s else NONE,
    ]


def _against(case: Shared, pattern: str | None, everything: list[Shared]) -> str:
    """The query's time over that in another pattern, which is the same before and after where all files are whole."""
    for other in everything:
        if (other.scheduler, other.piece, other.pattern) == (case.scheduler, case.piece, pattern) and other is not case:
            return interval_text(ratio(case.query_seconds, other.query_seconds))
    return NONE


def _times(case: Shared) -> list[float]:
    return case.query_seconds
