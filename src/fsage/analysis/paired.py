"""Two runs of one study side by side: what was measured in the same blocks in both, and whether it changed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fsage.analysis.conditions import labelled
from fsage.analysis.groups import measures, samples
from fsage.statistics import exchanged

UNIT = ["state", "structure", "place", "iteration"]
ALIKE = ["state", "params", "measure"]


def pairs(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell and measure that both have in the same blocks: UNIT, ALIKE, `log` of after over before."""
    sides = [labelled(samples(frame)) for frame in (before, after)]
    keys = [*UNIT, "params", "layout_digest"]
    both = sides[0][sides[0]["main"]].merge(sides[1][sides[1]["main"]], on=keys, suffixes=("_before", "_after"))
    both = both[both["layout_digest"] != "unknown"]
    logs = [
        both[keys].assign(measure=name, log=np.log(both[f"{name}_after"] / both[f"{name}_before"]))
        for name in measures(before)
        if name in after.columns
    ]
    if logs:
        rows = pd.concat(logs)
    else:
        rows = pd.DataFrame(columns=[*keys, "measure", "log"])
    return rows.dropna(subset="log")


def changed(rows: pd.DataFrame) -> tuple[pd.Series, dict[str, float]]:
    """By ALIKE the p of `pairs` that this group did not change, and by measure that the whole did not: one family."""
    parts = [(str(measure), part.groupby(ALIKE, sort=True)) for measure, part in rows.groupby("measure", sort=False)]
    if not parts:
        return pd.Series(dtype="float64"), {}
    logs = [part.obj["log"].to_numpy() for _, part in parts]
    of_groups, whole = exchanged(logs, [part.ngroup().to_numpy() for _, part in parts])
    keys = [key for _, part in parts for key in part.groups]
    by_group = pd.Series(np.concatenate(of_groups), pd.MultiIndex.from_tuples(keys, names=ALIKE))
    return by_group, dict(zip([measure for measure, _ in parts], whole, strict=True))
