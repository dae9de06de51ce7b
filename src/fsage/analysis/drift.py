"""Did anything change while it was measured? Trends within each state, in the order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from fsage.analysis.conditions import AXES, labelled
from fsage.analysis.groups import measure_label, measures, samples
from fsage.statistics import ALPHA, adjust_exploratory, trend


@dataclass(frozen=True)
class Drifts:
    """Of `tests` trend tests those that find a drift, the surest first: 'writes at 80.00 fall (tau -0.80, p=0.01)'."""

    tests: int
    found: list[str]


def drifts(frame: pd.DataFrame) -> Drifts:
    """States in which the samples of all groups, each over its group's mean, rise or fall with time.

    The cells of a state are measured in an order drawn at random, so that under no drift every order of these is as
    likely as any other: the trend test is exact, however much the groups differ. Under false-discovery control.
    """
    valid_rows = samples(frame)
    trends = []
    for measure in measures(valid_rows):
        measured_rows = over_group(valid_rows[valid_rows[measure].notna()], measure, pd.Series.mean)
        measured_rows = measured_rows[measured_rows["size"] > 1]  # a sample alone is its own mean
        for state, part in measured_rows.sort_values(["began", "order_in_state"], kind="stable").groupby(
            "state", sort=False
        ):
            trends.append((state, measure_label(measure)[0], trend(part["y"].tolist())))
    tested = [result for result in trends if result[2].p is not None]
    ps = adjust_exploratory([result.p for *_, result in tested])
    drifting = [(p, *result) for p, result in zip(ps, tested, strict=True) if p is not None and p <= ALPHA]
    return Drifts(
        len(tested),
        [
            f"{name}s at {state} {'rise' if (result.tau or 0) > 0 else 'fall'} (tau {result.tau:+.2f}, p={p:.2g})"
            for p, state, name, result in sorted(drifting, key=lambda row: row[0])
        ],
    )


def over_group(taken: pd.DataFrame, measure: str, centre: Callable[[pd.Series], float]) -> pd.DataFrame:
    """Those with a group, of like layout and conditions: `y` is over the centre of its `size` planned samples."""
    by_layout = taken.assign(layout_digest=taken["layout_digest"].fillna("unknown"))
    by_layout = by_layout.assign(setting=labelled(taken)["setting"])
    keys = [*AXES, "setting", "layout_digest"]
    centres = (
        by_layout[by_layout["kind"] == "planned"].groupby(keys, dropna=False)[measure].agg(centre=centre, size="size")
    )
    merged = by_layout.merge(centres, how="left", left_on=keys, right_index=True)
    return merged.assign(y=merged[measure] / merged["centre"]).dropna(subset="y")
