"""What was counted where nothing is timed: a table over states and parameters, and whether it was the same again."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fsage.analysis.groups import params_labels
from fsage.analysis.words import NONE, sentences
from fsage.report.parts import Data, Section
from fsage.report.view import Answer
from fsage.workloads.metadata import DEVICE, OPERATIONS


def again(rows: pd.DataFrame, by: Sequence[str], names: Sequence[str]) -> str:
    """How many cells that were measured again on the same image differ from their first time in columns of these names.

    Rows with the same values in the columns `by` are of one cell.
    """
    counts = rows.reindex(columns=names).fillna(NOT_COUNTED)
    pairs = 0
    differ = 0
    for _, of_cell in counts.groupby([rows[name] for name in by], sort=False):
        others = of_cell[1:]
        pairs += len(others)
        differ += int((others != of_cell.iloc[0]).any(axis=1).sum())
    return sentences("again", pairs=pairs, differ=differ)[0]


def not_counted(rows: pd.DataFrame, head: str, column: str) -> Section | None:
    """Why cells were not counted, each reason once for each value of a column; None where all were."""
    others = rows[rows["status"] != "valid"]
    if others.empty:
        return None
    said = {(str(row[column]), row["status"], str(row["why"])) for row in others.to_dict("records")}
    table = [[head, "status", "why"], *map(list, sorted(said))]
    return Section("What was not counted", "Each reason once.", table=table)


def section(frame: pd.DataFrame, title: str, text: str, names: Sequence[str]) -> Section | None:
    """A row for each state and set of parameters with the columns of these names that have counts; None: none has."""
    rows = frame[(frame["status"] == "valid") & (frame["kind"] == "planned")]
    present = [name for name in names if name in rows and rows[name].notna().any()]
    if not present:
        return None
    rows = rows.dropna(subset=present, how="all")
    labels = params_labels(rows)
    table = [["state", "cell", *(name.replace("_", " ") for name in present)]]
    cell = ["state", "params"]
    for (state, params), counts in rows.groupby(cell, sort=False):
        table.append([state, labels[params], *(_span(counts[name].dropna()) for name in present)])
    return Section(title, f"{text} {again(rows, cell, present)}", table=table)


def metadata(data: Data) -> Section | None:
    """What each operation made the device do, counted in guests."""
    names = [f"{operation}_device_{key}" for operation in OPERATIONS for key in DEVICE]
    text = (
        "Empty files, created, looked up and removed by one process, which then writes out what that changed. Requests "
        "and bytes that reached the device meanwhile."
    )
    return section(data.frame, "What metadata make the device do", text, names)


def answer(found: Section | None) -> Answer | None:
    """What stands on top where nothing was timed: the first counts of two cells, and whether all repeat."""
    if found is None or not found.table:
        return None
    heads, *rows = found.table
    first = []
    for state, cell, *counts in rows[:2]:
        named = [f"{name} {count}" for name, count in zip(heads[2:], counts, strict=True) if count not in (NONE, "0")]
        first.append(f"In {state}, {cell}: {', '.join(named[:SHOWN])}.")
    return Answer([*first, found.text[found.text.rindex(". ") + 2 :]])


SHOWN = 4
"""So many counts of a cell does the answer tell."""
NOT_COUNTED = -1
"""In place of a count: what was not counted twice is alike."""


def _span(counts: pd.Series) -> str:
    """'512', '11 to 19', a dash where it is not counted."""
    if counts.empty:
        return NONE
    low = int(counts.min())
    high = int(counts.max())
    if low == high:
        return f"{low:,}"
    return f"{low:,} to {high:,}"
