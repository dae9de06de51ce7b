"""Metadata rates over capacity and over fragmentation, where a study has metadata cells."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import counts, measure_label, params_labels
from fsage.figures import Axis, Figure, Lines, limits
from fsage.report.section import Data, Section
from fsage.studies.paf.report.rows import CAPACITY, FRAGMENTATION, levels, lines, main_rows


def metadata(data: Data) -> Section | None:
    """Each operation's rate against AA, unfragmented, and against BB at the highest capacity that has several."""
    rows = main_rows(data)
    rows = rows[rows["measure"].str.endswith("_per_s")]
    if rows.empty:
        return None
    several = rows.groupby("capacity_percent")["fragmentation_percent"].nunique()
    highest = several[several > 1].index.max()
    over = (
        ("capacity", rows[rows["fragmentation_percent"] == 0], "capacity_percent", CAPACITY),
        ("fragmentation", rows[rows["capacity_percent"] == highest], "fragmentation_percent", FRAGMENTATION),
    )
    figures: list[Figure] = [
        _figure(f"{measure_label(str(measure))[0].capitalize()} rate over {axis}", part, column, label)
        for axis, some, column, label in over
        for measure, part in some.groupby("measure", sort=False)
        if part[column].nunique() > 1
    ]
    text = f"Empty files, each task in a directory of its own; n = {counts(rows)} a point."
    if pd.notna(highest):
        text += f" Over fragmentation: at AA = {highest:g}, where real fullness falls as BB rises."
    return Section("Metadata rates", text, figures) if figures else None


def _figure(title: str, part: pd.DataFrame, column: str, label: str) -> Lines:
    drawn = lines(part, column, params_labels(part["params"]), "params")
    return Lines(title, drawn, Axis(label, ticks=levels(part, column)), Axis("operations a second", limits(part)))
