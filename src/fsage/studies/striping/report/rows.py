"""Which rows the figures and the table show."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pandas as pd

from fsage.analysis.groups import params_labels
from fsage.figures import Axis, Level, Lines, lines
from fsage.model.striping import Segment
from fsage.report.section import Data

FEW = 8
"""Layouts, below whose names there is room for their stripes."""


def rows_of(data: Data) -> pd.DataFrame:
    """Bandwidths in planned order, writes before reads, as `described`; of several numbers of nodes the largest."""
    table = data.table[data.table["measure"].str.endswith("_bw_mib_s")]
    return one_count_of_nodes(described(table, data.planned))


def described(table: pd.DataFrame, planned: list[str]) -> pd.DataFrame:
    """The rows with `kind`, static or dynamic, and `x`, a place for each layout, in planned order.

    `rest`: which parameters differ, but the nodes, where there are several sets of them; `line`: the kind with those
    and the nodes.
    """
    kinds = ["dynamic" if json.loads(text)["segments"] > 1 else "static" for text in table["axes"]]
    places = {state: float(place) for place, state in enumerate(planned)}
    whole = _differing(table["params"])
    return table.assign(
        kind=kinds,
        line=[", ".join(filter(None, words)) for words in zip(kinds, whole, strict=True)],
        rest=_differing(table["params"].map(_without_nodes)),
        x=table["state"].map(places),
    ).sort_values(["measure", "x", "params"], ascending=[False, True, True], kind="stable")


def one_count_of_nodes(rows: pd.DataFrame) -> pd.DataFrame:
    """Of several numbers of nodes the rows with the largest, which then is no part of a label."""
    nodes = pd.Series([json.loads(text).get("nodes") for text in rows["params"]], rows.index, dtype="float64")
    if nodes.nunique(dropna=False) < 2:
        return rows
    kept = rows[nodes == nodes.max()]
    return kept.assign(line=(kept["kind"] + ", " + kept["rest"]).str.removesuffix(", "))


def _differing(params: pd.Series) -> list[str]:
    """For each set of parameters a label of what is not the same in all."""
    labels = {text: label.split(", ") for text, label in params_labels(params).items()}
    common = set.intersection(*map(set, labels.values())) if labels else set()
    return [", ".join(word for word in labels[text] if word not in common) for text in params]


def by_line(
    title: str, rows: pd.DataFrame, data: Data, y: Axis, by: str = "line", levels: Iterable[Level] = ()
) -> Lines:
    """Layouts side by side, a series for each `line`."""
    return lines(title, rows, by, layouts_axis(rows, data), y, joined=False, levels=levels)


def layouts_axis(part: pd.DataFrame, data: Data) -> Axis:
    """What the places of layouts are called in a figure, and the axis: a set that all are of stands there once.

    Below a few names stand their stripes, one count after the other as the file grows: '4\u21928\u219216'.
    """
    states = part.drop_duplicates("x").set_index("x")["state"]
    stripes = stripes_of(data)
    sets = set(states.str.extract(r"^([A-Za-z]+)\.", expand=False))
    label, names = "layout", states
    if len(sets) == 1 and isinstance(name := sets.pop(), str):
        label, names = f"layout, {name}.n", states.str.removeprefix(f"{name}.")
    all_known = len(states) <= FEW and all(state in stripes for state in states)
    below = {
        state: "\u2192".join(str(segment.stripes) for segment in segments)
        for state, segments in stripes.items()
        if all_known
    }
    return Axis(label, ticks={float(x): f"{name}\n{below.get(states[x], '')}".strip() for x, name in names.items()})


def stripes_of(data: Data) -> dict[str, list[Segment]]:
    """The segments of each layout that the target has, in planned order, as its cells verified them."""
    noted = {state: notes.get("stripe", {}).get("segments") for state, notes in data.notes.items()}
    return {state: [Segment(*segment) for segment in segments] for state, segments in noted.items() if segments}


def _without_nodes(params: str) -> str:
    return json.dumps({key: value for key, value in json.loads(params).items() if key != "nodes"})
