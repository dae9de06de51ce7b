"""How filler is laid, and what that does to the loss at equal fullness."""

from __future__ import annotations

import json
import math

import pandas as pd

from fsage.figures import Axis, Figure, Level, Lines, series
from fsage.report.section import Data, Section
from fsage.studies.paf.report.rows import by_measure, factor_axis, factors, largest_transfer, main_rows
from fsage.text.sizes import round_size

NAMES = {"fallocate": "fallocate", "write": "written past the cache", "buffered": "written through the cache"}


def several(data: Data) -> bool:
    """Whether the study compares ways of laying filler."""
    return data.table["axes"].nunique() > 1


def filler(data: Data) -> Section | None:
    """The fragmented over the equally full unfragmented state, over the size of a request, a line a number of files."""
    if not several(data):
        return None
    rows = factors(largest_transfer(main_rows(data)))
    rows = rows[rows["axes"].notna()]
    if rows.empty:
        return None
    laid = [json.loads(axes) for axes in rows["axes"]]
    rows = rows.assign(
        x=[math.log2(note["request_size_bytes"]) for note in laid],
        request=[note["request_size_bytes"] for note in laid],
        way=[f"{NAMES[note['filler']]}, {note['files_at_once']} at once" for note in laid],
    )
    text = (
        "Each fragmented state over the unfragmented one that is equally full and whose filler was laid alike: below 1 "
        "is a loss. What the allocator did is part of the result: the table has in how many extents the measured files "
        "lie in both."
    )
    figures: list[Figure] = [_figure(name, part, rows) for name, _, part in by_measure(rows)]
    return Section("How filler is laid", text, figures, table=_table(rows, data.frame))


def _figure(name: str, part: pd.DataFrame, rows: pd.DataFrame) -> Lines:
    ticks = {math.log2(size): round_size(size) for size in sorted(rows["request"].unique())}
    return Lines(
        f"{name.capitalize()}s, fragmented over equally full",
        tuple(series(way, part[part["way"] == way]) for way in sorted(part["way"].unique())),
        Axis("size of a request", ticks=ticks),
        factor_axis(rows),
        (Level(1.0),),
    )


def _table(rows: pd.DataFrame, frame: pd.DataFrame) -> list[list[str]]:
    """Extents of the measured files and of the filler, fragmented and not, a row each way."""
    extents = frame.groupby("state")[["measured_extents", "filler_extents", "filler_files"]].median()
    table = [["filler", "request", "extents a file", "measured, fragmented", "measured, equally full"]]
    for row in rows.drop_duplicates("state").sort_values(["way", "request"]).itertuples():
        here, reference = extents.loc[row.state], extents.loc[row.clean]
        each = reference["filler_extents"] / reference["filler_files"]
        measured = [_count(counts["measured_extents"]) for counts in (here, reference)]
        table.append([row.way, round_size(row.request), f"{each:.1f}", *measured])
    return table


def _count(value: float) -> str:
    return "not known" if pd.isna(value) else f"{value:g} extents"
