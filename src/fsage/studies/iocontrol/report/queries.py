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
    everything = [one for one in shared(data, SQLITE) if one.query_seconds]
    if not everything:
        return None
    heads = ["scheduler", "state", "pattern", "query, s", "to alone", "to whole files", f"{CALLED[SQLITE]['1']}, MiB/s"]
    table = [heads, *(_row(one, everything) for one in everything)]
    pieces = list(dict.fromkeys(one.piece for one in everything))
    figures: list[Figure] = []
    for piece in pieces:
        mine = [one for one in everything if one.piece == piece]
        keys = list(dict.fromkeys((one.pattern, one.stage) for one in sorted(mine, key=_order)))
        places = {key: float(place) for place, key in enumerate(keys)}
        schedulers = dict.fromkeys(one.scheduler for one in mine)
        drawn = {name: points([one for one in mine if one.scheduler == name], places, _times) for name in schedulers}
        ticks = {place: pattern + PRIMES[stage] for (pattern, stage), place in places.items()}
        top = max(max(one.query_seconds) for one in mine)
        figures.append(
            Lines(
                "Time of a query" + f", pieces of {piece}" * (len(pieces) > 1),
                tuple(series(scheduler_label(name), rows, joined=False) for name, rows in drawn.items()),
                Axis(axis_of_patterns(mine), ticks=ticks),
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


def _order(one: Shared) -> tuple[bool, str]:
    return one.stage != BEFORE, one.pattern


def _row(one: Shared, everything: list[Shared]) -> list[str]:
    held = summarise(one.query_seconds).interval
    return [
        scheduler_label(one.scheduler),
        one.state,
        one.pattern,
        f"{median(one.query_seconds):.3g}" + (f" ({held.low:.3g} to {held.high:.3g})" if held else ""),
        _against(one, ALONE[GROUPS[1]], everything),
        _against(one, {"P4": "P2", "P5": "P3"}.get(one.pattern), everything),
        f"{median(one.bw_mib_s['1']):.4g}" if "1" in one.bw_mib_s else NONE,
    ]


def _against(one: Shared, pattern: str | None, everything: list[Shared]) -> str:
    """The query's time over that in another pattern, which is the same before and after where all files are whole."""
    for other in everything:
        if (other.scheduler, other.piece, other.pattern) == (one.scheduler, one.piece, pattern) and other is not one:
            return interval_text(ratio(one.query_seconds, other.query_seconds))
    return NONE


def _times(one: Shared) -> list[float]:
    return one.query_seconds
