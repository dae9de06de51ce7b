"""Throughput of each phase in each layout, and the speed-up over the default one; static beside dynamic."""

from __future__ import annotations

import json

import pandas as pd

from fsage.analysis.groups import compared, measure_label, plural
from fsage.figures import Axis, Figure, Level, Lines, limits, series
from fsage.report.section import Data, Section
from fsage.studies.striping.report.rows import layouts_axis, rows_of

PUBLISHED = {
    "IOR.": "Published, for 16 nodes on a large Lustre: IOR.4 to IOR.6 read faster than IOR.1 to IOR.3. IOR.4 writes "
    "at least as fast as IOR.1, IOR.5 as IOR.2, and IOR.6 as IOR.3. ",
    "blast.": "Published, for 64 processes on 8 nodes of a large Lustre: static layouts reach 1.22 to 1.26 times "
    "blast.1. Exceptions are blast.6 and blast.7, blamed on other load. From blast.10 to blast.12 the factor "
    "falls from 1.26 to 1.22. ",
}
WORK = {
    "striped_file": "One shared file is written, then read. Each object has its own task, and tasks of all segments "
    "run at once.",
    "netflow": "A file of flow records is indexed in a scan; then the records of some models are read at random, by "
    "the offsets in the index. Only the records count, not the blocks that contain them. Work is assigned before "
    "the start (synchronous), or to the next idle task (asynchronous). Where IOCost is the model, only jumps "
    "of more than 16 MiB are charged as random, and small objects have few.",
    "blast": "blastn searches a database. Its volumes are shared out to processes that run at once, each with all "
    "queries. Each volume is mapped whole: on a target with OSTs, it lies on one OST. The volumes of a "
    "segment go round the segment's OSTs; the width of stripes has no effect.",
}
MARGIN = 0.08
"""Of the highest value, above it."""


def throughput(data: Data) -> Section | None:
    """Medians with their intervals, a figure for each phase."""
    rows = rows_of(data)
    if rows.empty:
        return None
    figures: list[Figure] = [
        _figure(data, f"{name} throughput", part, Axis("MiB/s", (0.0, limits(part)[1]))) for name, part in _phases(rows)
    ]
    counts = sorted(rows["n"].unique())
    text = (
        " ".join(WORK[name] for name in sorted(_workloads(rows)) if name in WORK)
        + " All bytes by the time from the first task's start to the last one's end. Static layouts have one stripe "
        "count and size throughout, dynamic ones change it at watermarks. The model of the device is of each OST. "
        + "".join(text for prefix, text in PUBLISHED.items() if rows["state"].str.startswith(prefix).any())
        + f"n = {', '.join(map(str, counts))}."
    )
    return Section("Throughput of each layout", text, figures)


def speed_up(data: Data) -> Section | None:
    """Ratios to the default layout with their intervals, and in words what was best."""
    rows = rows_of(data)
    rows = compared(rows, "value")
    if rows.empty:
        return None
    default = rows["reference"].iloc[0]
    held = [row.interval for row in rows["to_clean"]]
    rows = rows.assign(
        median=[row.value for row in rows["to_clean"]],
        low=[interval.low if interval else float("nan") for interval in held],
        high=[interval.high if interval else float("nan") for interval in held],
        samples=[[] for _ in held],
    )
    highest = max(1.0, rows[["median", "high"]].max().max())
    times = Axis("times", (0.0, highest * (1 + MARGIN)))
    figures: list[Figure] = [
        _figure(data, f"{name} speed-up over {default}", part, times, (Level(1.0),)) for name, part in _phases(rows)
    ]
    text = (
        f"The median of all pairwise ratios to {default}, the default layout, with the interval that inverts the exact "
        f"rank-sum test. {_best(rows)}"
    )
    return Section("Speed-up over the default layout", text, figures)


def _workloads(rows: pd.DataFrame) -> set[str]:
    return {json.loads(text)["workload"] for text in rows["params"]}


def _phases(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(measure_label(str(name))[0].capitalize(), part) for name, part in rows.groupby("measure", sort=False)]


def _figure(data: Data, title: str, part: pd.DataFrame, y: Axis, levels: tuple[Level, ...] = ()) -> Lines:
    kinds = tuple(series(str(kind), points, joined=False) for kind, points in part.groupby("line", sort=False))
    return Lines(title, kinds, layouts_axis(part, data), y, levels)


def _best(rows: pd.DataFrame) -> str:
    """The fastest static and dynamic layout of each phase, in words; whether one beats the other is the headline's."""
    sentences = []
    for measure, part in rows.groupby("measure", sort=False):
        best = [part.loc[of_kind["median"].idxmax()] for _, of_kind in part.groupby("kind", sort=False)]
        best_words = ", ".join(f"{row['state']} ({row['kind']}, {row['median']:.3g}x)" for row in best)
        sentences.append(f"{plural(str(measure))}: {best_words}")
    return f"Fastest here, {'; '.join(sentences)}."
