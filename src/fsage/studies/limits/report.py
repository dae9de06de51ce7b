"""What fails first in each layout while the rest of it fills: a section of any report whose cells tried it."""

from __future__ import annotations

import errno
from collections.abc import Collection

import pandas as pd

from fsage.api.model import Json
from fsage.api.report import Answer, Data, Section, unseeded, words

from .model import WORDS

TITLE = "What fails first"
NEVER = "never until nothing is left"
ALIKE_POINTS = 0.05


def section(data: Data) -> Section | None:
    """A row for each layout and what was tried; None where no cell tried anything."""
    rows = _rows(data)
    if rows.empty:
        return None
    table = [["layout", "full at first", "what is tried", "first fails at", "how", "free then"]]
    for state, of_state in rows.groupby("layout", sort=False):
        for name, probed in WORDS.items():
            table.append([str(state), _span(of_state["from_full_percent"], "%"), probed, *_failed(of_state, name)])
    text = (
        "Each is tried in the layout as it is, and again while a file grows until nothing is left for users. What is "
        "got is given back. Percentages are those of df; several layouts of a state are told from the lowest to the "
        "highest."
    )
    return Section(TITLE, text, [], table=table)


def answer(data: Data) -> Answer | None:
    """What stands on top where nothing was timed; None where no cell tried anything, or rates are there."""
    if data.measures or not (said := sentences(data)):
        return None
    return Answer(said)


def sentences(data: Data, states: Collection[str] | None = None) -> list[str]:
    """What fails first in each layout, and at which fullness; in all layouts, or those of `states`."""
    rows = _rows(data)
    if rows.empty:
        return []
    if states is not None:
        rows = rows[rows["state"].isin(states)]
    by_layout = rows.groupby("layout", sort=False)
    return words.sentences("limits/first", layouts=[_first(str(state), of_state) for state, of_state in by_layout])


def _rows(data: Data) -> pd.DataFrame:
    if "from_full_percent" not in data.frame:
        return pd.DataFrame()
    rows = data.frame[data.frame["status"] == "valid"].dropna(subset="from_full_percent")
    return rows.assign(layout=rows["state"].map(unseeded))


def _first(layout: str, rows: pd.DataFrame) -> Json:
    """What fails first in a layout, at which fullness, and what follows; `first` is empty where nothing does."""
    fails: dict[str, float] = {}
    for name in WORDS:
        percents = rows.get(f"{name}_fails_at_percent", pd.Series(dtype=float)).dropna()
        if len(percents):
            fails[name] = float(percents.min())
    at = min(fails.values(), default=0.0)
    first = [name for name, percent in fails.items() if percent <= at + ALIKE_POINTS]
    later = [name for name in fails if name not in first]
    following = min(later, key=lambda name: fails[name], default=None)
    at_once = [rows[f"{name}_fails_at_percent"] <= rows["from_full_percent"] + ALIKE_POINTS for name in first]
    return {
        "layout": layout,
        "full": _span(rows["from_full_percent"], "%"),
        "first": [WORDS[name] for name in first],
        "now": any(of_layouts.any() for of_layouts in at_once),
        "at": at,
        "how": _how(rows, first[0]) if first else "",
        "following": following and WORDS[following],
        "following_at": following and fails[following],
    }


def _failed(rows: pd.DataFrame, name: str) -> list[str]:
    if f"{name}_fails_at_percent" not in rows or rows[f"{name}_fails_at_percent"].isna().all():
        return [NEVER, "", ""]
    percent, free_mib = (rows[f"{name}_fails_{part}"].dropna() for part in ("at_percent", "free_mib"))
    return [_span(percent, "%"), _how(rows, name), _span(free_mib, " MiB")]


def _how(rows: pd.DataFrame, name: str) -> str:
    """'ENOSPC', 'in 3 pieces'."""
    column = rows.get(f"{name}_fails_errno", pd.Series(dtype=float)).dropna()
    errors = [errno.errorcode.get(int(number), "an unknown error") for number in column.unique()]
    pieces = rows.get(f"{name}_fails_pieces", pd.Series(dtype=float)).dropna()
    return words.joined([*errors, *([f"in {_span(pieces, '')} pieces"] if len(pieces) else [])])


def _span(values: pd.Series, unit: str) -> str:
    low = float(values.min())
    high = float(values.max())
    digits = ".0f" if not unit else ".1f"
    if high - low < ALIKE_POINTS:
        return f"{low:{digits}}{unit}"
    return f"{low:{digits}} to {high:{digits}}{unit}"
