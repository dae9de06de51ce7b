"""What share of the clean rate a nearly full target keeps, by the size of preallocation."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import compared, measure_label
from fsage.analysis.headline import comparisons
from fsage.figures import Axis, Level, Lines, limits_with_zero, series
from fsage.report.answer import Answer, cards_of
from fsage.report.section import Data
from fsage.report.words import joined
from fsage.studies.prealloc.report.contiguity import mean_extents_mib
from fsage.studies.prealloc.report.rates import LEAST_POINTS, share_rows
from fsage.studies.prealloc.report.rows import aged, rows_of
from fsage.study.study import Study

CODES = (
    "1M.05 is a target that was filled with files whose pieces of 1 MiB alternate; then 5 of them were deleted. "
    "1M.clean is the same size of preallocation on an empty target."
)


def answer(data: Data, study: Study) -> Answer | None:
    """The smallest and the largest size at the fullest, writes and reads, and how long the pieces are there."""
    rows = compared(aged(rows_of(data)), "value")
    rows = rows[rows["deleted"] == rows["deleted"].min()]
    if rows.empty:
        return None
    first = rows.iloc[0]
    sizes = list(dict.fromkeys(rows.sort_values("preallocation_bytes")["size"]))
    ends = list(dict.fromkeys([sizes[0], sizes[-1]]))
    parts: list[str] = []
    for measure, part in rows.groupby("measure", sort=False):
        of_size = [part[part["size"] == size] for size in ends]
        kept = [_kept(row.iloc[0], bool(parts)) for row in of_size if len(row)]
        parts.append(f"{measure_label(str(measure))[0]}s keep {joined(kept)}")
    deleted = f"{first['deleted']:g} of {first['files']:g} files"
    sentences = [f"On a target that is full but for {deleted}, {'; '.join(parts)}."]
    if why := _because(data, rows, ends):
        sentences.append(why)
    return Answer(sentences, _figure(rows), cards_of(comparisons(data.frame, study)), CODES)


def _kept(row: pd.Series, brief: bool) -> str:
    """'49% of the clean rate (47 to 51%) with a preallocation of 1 MiB', or '49% (47 to 51%) with 1 MiB'."""
    held = row["to_clean"].interval
    ends = f" ({100 * held.low:.0f} to {100 * held.high:.0f}%)" if held else ""
    value = f"{100 * row['to_clean'].value:.0f}%"
    if brief:
        return f"{value}{ends} with {row['size']}"
    return f"{value} of the clean rate{ends} with a preallocation of {row['size']}"


def _because(data: Data, rows: pd.DataFrame, ends: list[str]) -> str:
    """How long an extent of the measured files is at each end, where that is known and in accord."""
    mean_extents = mean_extents_mib(data)
    mean = {size: mean_extents.get(rows.loc[rows["size"] == size, "state"].iloc[0]) for size in ends}
    if len(ends) < 2 or None in mean.values():
        return ""
    shares = [rows.loc[rows["size"] == size, "to_clean"].map(lambda factor: factor.value).mean() for size in ends]
    lengths = f"{mean[ends[-1]]:.3g} MiB on average instead of {mean[ends[0]]:.3g} MiB"
    if (shares[1] > shares[0]) == (mean[ends[-1]] > mean[ends[0]]):
        return f"The larger keeps more because files written there have extents of {lengths}."
    return f"That is against what the layout lets expect: the written files have extents of {lengths}."


def _figure(rows: pd.DataFrame) -> Lines:
    shown = share_rows(rows)
    sizes = list(dict.fromkeys(shown.sort_values("preallocation_bytes")["size"]))
    shown = shown.assign(x=shown["size"].map({size: float(place) for place, size in enumerate(sizes)}))
    return Lines(
        "Share of the clean rate on the fullest target",
        tuple(
            series(f"{measure_label(str(measure))[0]}s", part, joined=False)
            for measure, part in shown.groupby("measure", sort=False)
        ),
        Axis("preallocation", ticks={float(place): size for place, size in enumerate(sizes)}),
        Axis("share of the clean rate, %", limits_with_zero(shown, LEAST_POINTS)),
        (Level(100.0),),
    )
