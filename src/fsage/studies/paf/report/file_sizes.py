"""Files, and so fragments, of different size (Series 2)."""

from __future__ import annotations

import json
from statistics import median

import pandas as pd

from fsage.figures import Axis, Figure, Lines, limits
from fsage.report.section import Data, Section
from fsage.report.words import Finding, doing, joined
from fsage.statistics import Ratio, median_interval
from fsage.studies.paf.report.rows import FRAGMENTATION, axes_of, by_measure, levels, lines, note
from fsage.text.sizes import round_size

STATE = ["capacity_percent", "fragmentation_percent"]


def file_sizes(data: Data) -> Section | None:
    """Bandwidth over BB, a line a file size, for each transfer size and capacity."""
    here = data.table
    axes = [axes for name in data.planned if (axes := axes_of(data, name)) and axes[1] > 0]
    both = pd.concat([data.table, data.comparison]) if len(data.comparison) else data.table
    pairs = pd.Series(zip(both["capacity_percent"], both["fragmentation_percent"], strict=True), index=both.index)
    both = both[pairs.isin(axes) & both["measure"].isin(here["measure"])]
    # A later read phase does not change how a cell writes.
    same = both["params"].map(_without_phases).isin(set(here["params"].map(_without_phases)))
    both = both[same & both["transfer_size_bytes"].isin(here["transfer_size_bytes"])]
    sizes = sorted({*both["file_size_bytes"].dropna(), *data.compared_sizes}, reverse=True)
    if len(sizes) < 2 or both.empty:
        return None
    labels = {size: f"{round_size(size)} files" for size in sizes}
    figures: list[Figure] = [
        Lines(
            f"{name.capitalize()} bandwidth by file size, {round_size(transfer)} transfers, AA = {level:g}",
            lines(at, "fragmentation_percent", labels, "file_size_bytes"),
            Axis(FRAGMENTATION, ticks=levels(at, "fragmentation_percent")),
            Axis(f"{name} bandwidth, {unit}", limits(both)),
        )
        for name, unit, part in by_measure(both)
        for (transfer, level), at in part.groupby(["transfer_size_bytes", "capacity_percent"])
    ]
    text = f"Nominal file sizes. {note(both)}"
    if gaps := _gaps(both, axes, sizes):
        text += f" Not measured: {'; '.join(gaps)}."
    return Section("Small fragments against large ones", text, figures)


def sizes_told(data: Data) -> str | None:
    """A sentence: the largest transfers into holes of our files against holes of the others', state by state."""
    here, there_rows = (_at_largest(rows) for rows in (data.table, data.comparison))
    both = here.merge(there_rows, on=["measure", *STATE], suffixes=("", "_there"))
    both = both[both["fragmentation_percent"] > 0]
    if both.empty or both["file_size_bytes"].nunique() != 1 or both["file_size_bytes_there"].nunique() != 1:
        return None
    size, other = (round_size(both[name].iloc[0]) for name in ("file_size_bytes", "file_size_bytes_there"))
    parts: list[str] = []
    for measure, rows in both.groupby("measure", sort=False):
        ratios = (rows["median"] / rows["median_there"]).tolist()
        finding = Finding(_over_states(ratios), tested=False)
        parts.append(finding.said(doing(str(measure)), "" if parts else f"where they are of {other} files"))
    transfer = round_size(both["transfer_size_bytes"].iloc[0])
    states = len(both[STATE].drop_duplicates())
    return f"Over {states} states, {transfer} at a time, where holes are of {size} files {joined(parts)}."


def largest(data: Data) -> Figure | None:
    """The figure of the largest transfers."""
    section = file_sizes(data)
    return section.figures[-1] if section and section.figures else None


def _at_largest(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].max()]


def _over_states(ratios: list[float]) -> Ratio:
    """The median of the states' ratios, with its interval over them."""
    count, held = len(ratios), median_interval(ratios)
    why = None if held else f"{count} of the 5 states that an interval needs"
    return Ratio(float(median(ratios)), held, count, count, why)


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


def _without_phases(params: str) -> str:
    return json.dumps({key: value for key, value in json.loads(params).items() if key != "phases"}, sort_keys=True)
