"""How much of the target is measured, and what that does to the loss."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from fsage.analysis.groups import samples
from fsage.figures import Axis, Figure, Level, Lines, series
from fsage.report.paf.rows import by_measure, factor_axis, factors, levels, main_rows
from fsage.report.section import Data, Section

SHARE = "share of the capacity that is measured, %"


def several(rows: pd.DataFrame) -> bool:
    """Whether the study compares shares of the target."""
    return rows["params"].map(share).nunique() > 1


def share(params: str) -> float | None:
    """`amount_percent` of a cell's parameters, as they stand in the table."""
    known: Any = json.loads(params).get("amount_percent")
    return None if known is None else float(known)


def amount(data: Data) -> Section | None:
    """Each state over the one that it is compared with, over the share that is measured."""
    if not several(data.table):
        return None
    rows = factors(main_rows(data))
    if rows.empty:
        return None
    rows = rows.assign(x=rows["params"].map(share)).sort_values("x")
    text = (
        f"Each state over {rows['clean'].iloc[0]} with as much measured: below 1 is a loss. Who writes little may find "
        "whole runs where who writes much has to take the holes: the table has in how many extents the files lie."
    )
    figures: list[Figure] = [_figure(name, part, rows) for name, _, part in by_measure(rows)]
    return Section("How much is measured", text, figures, table=_table(samples(data.frame)))


def _figure(name: str, part: pd.DataFrame, rows: pd.DataFrame) -> Lines:
    return Lines(
        f"{name.capitalize()}s against the share that is measured",
        tuple(series(state, part[part["state"] == state]) for state in sorted(part["state"].unique())),
        Axis(SHARE, ticks=levels(rows, "x")),
        factor_axis(rows),
        (Level(1.0),),
    )


def _table(frame: pd.DataFrame) -> list[list[str]]:
    """Extents of the measured files, a row a share, a column a state."""
    states = sorted(frame["state"].unique())
    extents = frame.assign(share=frame["params"].map(share)).pivot_table(
        index="share", columns="state", values="measured_extents", aggfunc="median"
    )
    return [
        ["measured, %", *(f"{state}, extents" for state in states)],
        *(
            [f"{level:g}", *(f"{row.get(state, float('nan')):g}" for state in states)]
            for level, row in extents.iterrows()
        ),
    ]
