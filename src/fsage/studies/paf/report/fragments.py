"""What fragments are made of: files of different size (Series 2), and ways of laying filler."""

from __future__ import annotations

from statistics import median

import pandas as pd

from fsage.api.model import round_size
from fsage.api.report import Data, Section, dataset, figures, groups, statistics, words

from .rows import (
    FRAGMENTATION,
    RELATIVE,
    by_measure,
    largest_transfer,
    levels_axis,
    main_rows,
    note,
    planned_axes,
)

STATE = ["capacity_percent", "fragmentation_percent"]
WAY = ("request_size_bytes", "filler", "files_at_once")
"""Axes that say how filler was laid."""
NAMES = {"fallocate": "fallocate", "write": "written past the cache", "buffered": "written through the cache"}


def file_sizes(data: Data) -> Section | None:
    """Bandwidth over BB, a line a file size, for each transfer size and capacity."""
    own = data.table
    axes = [of_state for of_state in planned_axes(data) if of_state[1] > 0]
    if len(data.comparison):
        both = pd.concat([data.table, data.comparison])
    else:
        both = data.table
    pairs = pd.Series(zip(both["capacity_percent"], both["fragmentation_percent"], strict=True), index=both.index)
    both = both[pairs.isin(axes) & both["measure"].isin(own["measure"])]
    # A later read phase does not change how a cell writes.
    same = dataset.without(both, "phases").isin(dataset.without(own, "phases"))
    both = both[same & both["transfer_size_bytes"].isin(own["transfer_size_bytes"])]
    sizes = sorted({*both["file_size_bytes"].dropna(), *data.compared_sizes}, reverse=True)
    if len(sizes) < 2 or both.empty:
        return None
    labels = {size: f"{round_size(size)} files" for size in sizes}
    plots = [
        figures.lines(
            f"{name.capitalize()} bandwidth by file size, {round_size(transfer)} transfers, AA = {level:g}",
            at_level,
            "file_size_bytes",
            levels_axis(at_level, "fragmentation_percent", FRAGMENTATION),
            figures.Axis.around(f"{name} bandwidth, {unit}", both),
            at="fragmentation_percent",
            labels=labels,
        )
        for name, unit, part in by_measure(both)
        for (transfer, level), at_level in part.groupby(["transfer_size_bytes", "capacity_percent"])
    ]
    text = f"Nominal file sizes. {note(both)}"
    gaps = _gaps(both, axes, sizes)
    if gaps:
        text += f" Not measured: {'; '.join(gaps)}."
    return Section("Small fragments against large ones", text, plots)


def sizes_told(data: Data) -> str | None:
    """A sentence: the largest transfers into holes of our files against holes of the others', state by state."""
    own_rows, there_rows = map(largest_transfer, (data.table, data.comparison))
    both = own_rows.merge(there_rows, on=["measure", *STATE], suffixes=("", "_there"))
    both = both[both["fragmentation_percent"] > 0]
    if both.empty or both["file_size_bytes"].nunique() != 1 or both["file_size_bytes_there"].nunique() != 1:
        return None
    findings = {}
    for measure, rows in both.groupby("measure", sort=False):
        ratios = (rows["median"] / rows["median_there"]).tolist()
        findings[groups.Measure.of(measure).doing] = words.Finding(_over_states(ratios), tested=False)
    clauses = words.sentences(
        "paf/sizes",
        findings=findings,
        states=len(both[STATE].drop_duplicates()),
        size=both["file_size_bytes"].iloc[0],
        other=both["file_size_bytes_there"].iloc[0],
        transfer=both["transfer_size_bytes"].iloc[0],
    )
    return words.paragraph(clauses)


def largest(data: Data) -> figures.Figure | None:
    """The figure of the largest transfers."""
    section = file_sizes(data)
    if section and section.figures:
        return section.figures[-1]
    return None


def _over_states(ratios: list[float]) -> statistics.Ratio:
    """The median of the states' ratios, with its interval over them."""
    count = len(ratios)
    interval = statistics.summarise(ratios).interval
    why = None if interval else f"{count} of the 5 states that an interval needs"
    return statistics.Ratio(float(median(ratios)), interval, count, count, why)


def _gaps(rows: pd.DataFrame, axes: list[tuple[float, float]], sizes: list[int]) -> list[str]:
    """States and transfers that some file size lacks, a phrase for each size and transfer."""
    columns = ["file_size_bytes", "transfer_size_bytes", "capacity_percent", "fragmentation_percent"]
    have = set(rows[columns].astype("float64").itertuples(index=False, name=None))
    gaps = []
    for size in sizes:
        for transfer in sorted(rows["transfer_size_bytes"].dropna().unique()):
            lacking = [f"{aa:02.0f}.{bb:02.0f}" for aa, bb in axes if (size, transfer, aa, bb) not in have]
            if lacking:
                gaps.append(f"{round_size(size)} files with {round_size(transfer)} transfers at {', '.join(lacking)}")
    return gaps


def several_fillers(data: Data) -> bool:
    """Whether the study compares ways of laying filler."""
    return len(dataset.unpacked(data.table, "axis", *WAY).drop_duplicates()) > 1


def filler(data: Data) -> Section | None:
    """The fragmented over the equally full unfragmented state, over the size of a request, a line a number of files."""
    if not several_fillers(data):
        return None
    rows = groups.factors(largest_transfer(main_rows(data)))
    laid = dataset.unpacked(rows, "axis", *WAY).dropna()
    rows = rows.loc[laid.index]
    if rows.empty:
        return None
    rows = rows.assign(
        request=laid["request_size_bytes"],
        way=laid["filler"].map(NAMES) + ", " + laid["files_at_once"].astype(str) + " at once",
    )
    text = (
        "Each fragmented state over the unfragmented one that is equally full and whose filler was laid alike: below 1 "
        "is a loss. What the allocator did is part of the result: the table has in how many extents the measured files "
        "lie in both."
    )
    rows, ticks = figures.doubling(rows, "request")
    ways = {way: way for way in sorted(rows["way"].unique())}
    x = figures.Axis("size of a request", ticks=ticks)
    y = figures.Axis.around("factor", rows, 1.0)
    equal = [figures.Level(1.0)]
    plots = [
        figures.lines(RELATIVE.format(name.capitalize()), part, "way", x, y, labels=ways, levels=equal)
        for name, _, part in by_measure(rows)
    ]
    return Section("How filler is laid", text, plots, table=_table(rows, data.frame))


def _table(rows: pd.DataFrame, frame: pd.DataFrame) -> list[list[str]]:
    """Extents of the measured files and of the filler, fragmented and not, a row each way."""
    extents = frame.groupby("state")[["measured_extents", "filler_extents", "filler_files"]].median()
    table = [["filler", "request", "extents a file", "measured, fragmented", "measured, equally full"]]
    for row in rows.drop_duplicates("state").sort_values(["way", "request"]).itertuples():
        pieces = extents.loc[row.state]
        reference = extents.loc[row.clean]
        each = reference["filler_extents"] / reference["filler_files"]
        measured = [_count(counts["measured_extents"]) for counts in (pieces, reference)]
        table.append([row.way, round_size(row.request), f"{each:.1f}", *measured])
    return table


def _count(value: float) -> str:
    if pd.isna(value):
        return "not known"
    return f"{value:g} extents"
