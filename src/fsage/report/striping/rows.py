"""Which rows the figures and the table show."""

from __future__ import annotations

import json

import pandas as pd

from fsage.report.groups import params_labels
from fsage.report.section import Data


def rows_of(data: Data) -> pd.DataFrame:
    """Bandwidths in planned order, writes before reads, as `described`; of several numbers of nodes the largest."""
    table = data.table[(data.table["recipe"] == "striping") & data.table["measure"].str.endswith("_bw_mib_s")]
    return one_count_of_nodes(described(table, data.planned))


def described(table: pd.DataFrame, planned: list[str]) -> pd.DataFrame:
    """The rows with `kind`, static or dynamic, and `x`, a place for each layout, in planned order.

    `line`: the kind, with the parameters where there are several sets of them; `rest`: those but the nodes.
    """
    kinds = ["dynamic" if json.loads(text)["segments"] > 1 else "static" for text in table["axes"]]
    labels = params_labels(table["params"])
    ends = {params: f", {label}" if len(labels) > 1 else "" for params, label in labels.items()}
    places = {state: float(place) for place, state in enumerate(planned)}
    bare = table["params"].map(_without_nodes)
    rest = params_labels(bare)
    return table.assign(
        kind=kinds,
        line=[kind + ends[params] for kind, params in zip(kinds, table["params"], strict=True)],
        rest=[rest[text] for text in bare],
        x=table["state"].map(places),
    ).sort_values(["measure", "x"], ascending=[False, True], kind="stable")


def one_count_of_nodes(rows: pd.DataFrame) -> pd.DataFrame:
    """Of several numbers of nodes the rows with the largest, which then is no part of a label."""
    nodes = pd.Series([json.loads(text).get("nodes") for text in rows["params"]], rows.index, dtype="float64")
    if nodes.nunique(dropna=False) < 2:
        return rows
    kept = rows[nodes == nodes.max()]
    return kept.assign(line=kept["kind"] + ", " + kept["rest"] if kept["rest"].nunique() > 1 else kept["kind"])


def ticks_of(part: pd.DataFrame) -> tuple[dict[float, str], str]:
    """What the places of layouts are called in a figure, and the axis: a set that all are of stands there once."""
    states = part.drop_duplicates("x").set_index("x")["state"]
    sets = set(states.str.extract(r"^([A-Za-z]+)\.", expand=False))
    if len(sets) != 1 or not isinstance(name := sets.pop(), str):
        return states.to_dict(), "layout"
    return states.str.removeprefix(f"{name}.").to_dict(), f"layout, {name}.n"


def _without_nodes(params: str) -> str:
    return json.dumps({key: value for key, value in json.loads(params).items() if key != "nodes"})
