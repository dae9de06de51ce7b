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
    mine = samples(frame)
    found = []
    for measure in measures(mine):
        known = over_group(mine[mine[measure].notna()], measure, pd.Series.mean)
        known = known[known["size"] > 1]  # a sample alone is its own mean
        for state, part in known.sort_values(["began", "order_in_state"], kind="stable").groupby("state", sort=False):
            found.append((state, measure_label(measure)[0], trend(part["y"].tolist())))
    tested = [one for one in found if one[2].p is not None]
    ps = adjust_exploratory([result.p for *_, result in tested])
    drifting = [(p, *one) for p, one in zip(ps, tested, strict=True) if p is not None and p <= ALPHA]
    return Drifts(
        len(tested),
        [
            f"{name}s at {state} {'rise' if (result.tau or 0) > 0 else 'fall'} (tau {result.tau:+.2f}, p={p:.2g})"
            for p, state, name, result in sorted(drifting, key=lambda one: one[0])
        ],
    )


def over_group(taken: pd.DataFrame, measure: str, centre: Callable[[pd.Series], float]) -> pd.DataFrame:
    """Those with a group, of like layout and conditions: `y` is over the centre of its `size` planned samples."""
    mine = taken.assign(layout_digest=taken["layout_digest"].fillna("unknown"))
    mine = mine.assign(setting=labelled(taken)["setting"])
    keys = [*AXES, "setting", "layout_digest"]
    centres = mine[mine["kind"] == "planned"].groupby(keys, dropna=False)[measure].agg(centre=centre, size="size")
    known = mine.merge(centres, how="left", left_on=keys, right_index=True)
    return known.assign(y=known[measure] / known["centre"]).dropna(subset="y")
