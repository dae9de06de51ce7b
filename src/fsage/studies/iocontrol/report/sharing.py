"""A figure for each scheduler: what each group read in each pattern, beside what its weight asks for."""

from __future__ import annotations

from functools import partial

import pandas as pd

from fsage.figures import Axis, Figure, Lines, limits, series
from fsage.report.section import Data, Section
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
    points,
    scheduler_label,
    shared,
)

WORDS = {BEFORE: "before defragmentation", HOT: "what is hot was defragmented", AFTER: "after defragmentation"}


def sharing(data: Data, workload: str) -> Section | None:
    """Bandwidths of both groups by pattern and stage, one panel for each scheduler and size of pieces."""
    everything = shared(data, workload)
    if not everything:
        return None
    pieces = list(dict.fromkeys(one.piece for one in everything))
    figures: list[Figure] = []
    for scheduler, piece in dict.fromkeys((one.scheduler, one.piece) for one in everything):
        mine = [one for one in everything if (one.scheduler, one.piece) == (scheduler, piece)]
        places = {(one.pattern, one.stage): float(place) for place, one in enumerate(mine)}
        drawn = {group: points(mine, places, partial(_rates, group)) for group in GROUPS}
        who = "SQLite and fio" if workload == SQLITE else "both groups"
        title = f"Bandwidth of {who}, {scheduler_label(scheduler)}"
        ticks = {place: pattern + PRIMES[stage] for (pattern, stage), place in places.items()}
        figures.append(
            Lines(
                f"{title}, pieces of {piece}" if len(pieces) > 1 else title,
                tuple(series(CALLED[workload][group], rows, joined=False) for group, rows in drawn.items()),
                Axis(axis_of_patterns(mine), ticks=ticks),
                Axis("read bandwidth, MiB/s", limits(pd.concat(drawn.values()))),
                note=mine[0].charged,
            )
        )
    two = CALLED[workload]
    files = "what it asks lies whole" if workload == SQLITE else "both read whole files"
    text = (
        f"{ALONE['2']}: {two['2']} alone; P2: both, {files}, weights 100 and 100; P3: 200 and 100; P4 and P5: as "
        f"these, but the file of {two['1']} is in pieces; {ALONE['1']}: {two['1']} alone, its file in pieces. "
        "All groups are counted by the kernel over the same span of time, in which all of them run."
    )
    return Section("What each group reads" + " beside SQLite" * (workload == SQLITE), text, figures)


def axis_of_patterns(mine: list[Shared]) -> str:
    """What an axis of patterns says of itself, and of the stages that are marked in it."""
    stages = dict.fromkeys(one.stage for one in mine)
    marked = ", ".join(f"{PRIMES[stage]}: {WORDS[stage]}" for stage in stages if PRIMES[stage])
    return f"pattern ({marked})" if marked else "pattern"


def _rates(group: str, one: Shared) -> list[float]:
    return one.bw_mib_s.get(group, [])
