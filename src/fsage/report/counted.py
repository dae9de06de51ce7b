"""What was counted where nothing is timed: a table over states and parameters, and whether it was the same again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import pandas as pd

from fsage.analysis.groups import params_labels
from fsage.analysis.words import NONE, sentences
from fsage.report.parts import Data, Section
from fsage.report.view import Answer
from fsage.workloads.metadata import DEVICE, OPERATIONS


def again(counts_of_cells: Iterable[Sequence[Sequence[object]]]) -> str:
    """How many cells that were measured again on the same image differ from their first time.

    Each cell has its counts of the first time, then those of each further time.
    """
    pairs = 0
    differ = 0
    for first, *others in counts_of_cells:
        pairs += len(others)
        differ += sum(counts != first for counts in others)
    return sentences("again", pairs=pairs, differ=differ)[0]


def section(frame: pd.DataFrame, title: str, text: str, names: Sequence[str]) -> Section | None:
    """A row for each state and set of parameters with the columns of these names that have counts; None: none has."""
    rows = frame[(frame["status"] == "valid") & (frame["kind"] == "planned")]
    present = [name for name in names if name in rows and rows[name].notna().any()]
    if not present:
        return None
    rows = rows.dropna(subset=present, how="all")
    labels = params_labels(rows)
    table = [["state", "cell", *(name.replace("_", " ") for name in present)]]
    cells = defaultdict[tuple[str, str], list[tuple[object, ...]]](list)
    for row in rows.fillna({name: -1 for name in present}).to_dict("records"):
        cells[row["state"], row["params"]].append(tuple(row[name] for name in present))
    for (state, params), counts in cells.items():
        table.append([state, labels[params], *map(_span, zip(*counts, strict=True))])
    return Section(title, f"{text} {again(cells.values())}", table=table)


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


def _span(values: Sequence[object]) -> str:
    """'512', '11 to 19', a dash where it is not counted."""
    found = sorted(int(value) for value in values if isinstance(value, (int, float)) and value >= 0)
    if not found:
        return NONE
    if found[0] == found[-1]:
        return f"{found[0]:,}"
    return f"{found[0]:,} to {found[-1]:,}"
