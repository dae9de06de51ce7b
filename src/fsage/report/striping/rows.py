"""Which rows the figures and the table show."""

from __future__ import annotations

import json

import pandas as pd

from fsage.report.groups import params_labels
from fsage.report.section import Data


def rows_of(data: Data) -> pd.DataFrame:
    """Bandwidths in planned order, writes before reads: `kind` static or dynamic, `x` a place for each layout.

    `line`: the kind, with the parameters that differ where there are several sets of them.
    """
    table = data.table[(data.table["recipe"] == "striping") & data.table["measure"].str.endswith("_bw_mib_s")]
    kinds = ["dynamic" if json.loads(text)["segments"] > 1 else "static" for text in table["axes"]]
    labels = {params: label.split(", ") for params, label in params_labels(table["params"]).items()}
    common = set.intersection(*map(set, labels.values())) if labels else set()
    ends = {params: "".join(f", {word}" for word in words if word not in common) for params, words in labels.items()}
    places = {state: float(place) for place, state in enumerate(data.planned)}
    return table.assign(
        kind=kinds,
        line=[kind + ends[params] for kind, params in zip(kinds, table["params"], strict=True)],
        x=table["state"].map(places),
    ).sort_values(["measure", "x", "params"], ascending=[False, True, True], kind="stable")
