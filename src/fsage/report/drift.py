"""Did anything change while it was measured? Within a state and from state to state, in the order of time."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from fsage.figures import Panel, drift_panel
from fsage.report.conditions import AXES, labelled
from fsage.report.groups import measure_label, measures, samples
from fsage.report.section import Section
from fsage.statistics import ALPHA, adjust_exploratory, median_interval, trend

REFERENCE = "read_bw_mib_s"
SHOWN = 3


def section(frame: pd.DataFrame, stamp: str) -> Section | None:
    """Samples and sentinels over their group, trends within states, and the passes over the device between them."""
    drawn = [_sentinels(frame, stamp), _trends(frame), _passes(frame, stamp)]
    said = [words for words, _ in drawn if words]
    panels = [panel for _, panels in drawn for panel in panels]
    return Section("Drift", " ".join(said), panels) if said else None


def _sentinels(frame: pd.DataFrame, stamp: str) -> tuple[str, list[Panel]]:
    """Every sample over the median of the planned ones in its group; nothing where no sentinel was taken."""
    taken = frame[(frame["status"] == "valid") & frame["kind"].isin(["planned", "sentinel"])]
    taken = taken.sort_values(["began", "state", "order"], kind="stable")
    taken = taken.assign(x=range(1, len(taken) + 1))
    panels, words = [], []
    for measure in measures(taken):
        known = _over_group(taken[taken[measure].notna()], measure, pd.Series.median)
        apart = known.loc[known["kind"] == "sentinel", "y"]
        if apart.empty:
            continue
        name = measure_label(measure)[0]
        words.append(
            f"{name.capitalize()}s: {len(apart)} sentinels, median {apart.median():.3f}x of their group, "
            f"from {apart.min():.3f}x to {apart.max():.3f}x."
        )
        panels.append(
            drift_panel(
                f"Drift of {name}s",
                known[["x", "y", "kind"]],
                "measurement, in the order of time",
                "sample over its group's median",
                stamp,
            )
        )
    text = "Sentinels are one cell measured again and again within a state; they enter no other figure or table."
    return (" ".join([text, *words]) if words else ""), panels


def drifts(frame: pd.DataFrame) -> tuple[int, list[str]]:
    """States in which the samples of all groups, each over its group's mean, rise or fall with time; of how many tests.

    The cells of a state are measured in an order drawn at random, so that under no drift every order of these is as
    likely as any other: the trend test is exact, however much the groups differ. Under false-discovery control, the
    surest first: 'writes at 80.00 fall (tau -0.80, p=0.01)'.
    """
    mine = samples(frame)
    found = []
    for measure in measures(mine):
        known = _over_group(mine[mine[measure].notna()], measure, pd.Series.mean)
        known = known[known["size"] > 1]  # a sample alone is its own mean
        for state, part in known.sort_values(["began", "order"], kind="stable").groupby("state", sort=False):
            found.append((state, measure_label(measure)[0], trend(part["y"].tolist())))
    tested = [one for one in found if one[2].p is not None]
    ps = adjust_exploratory([result.p for *_, result in tested])
    drifting = [(p, *one) for p, one in zip(ps, tested, strict=True) if p is not None and p <= ALPHA]
    return len(tested), [
        f"{name}s at {state} {'rise' if (result.tau or 0) > 0 else 'fall'} (tau {result.tau:+.2f}, p={p:.2g})"
        for p, state, name, result in sorted(drifting, key=lambda one: one[0])
    ]


def _trends(frame: pd.DataFrame) -> tuple[str, list[Panel]]:
    tests, drifting = drifts(frame)
    if not tests:
        return ("" if samples(frame).empty else "Too few samples in each state for a trend test."), []
    text = f"Within states: {len(drifting)} of {tests} trend tests (Kendall, over time) find a drift"
    more = [f"{len(drifting) - SHOWN} more"] if len(drifting) > SHOWN else []
    said = "; ".join([*drifting[:SHOWN], *more])
    return f"{text}{': ' if drifting else ''}{said}, under false-discovery control.", []


def _passes(frame: pd.DataFrame, stamp: str) -> tuple[str, list[Panel]]:
    """The reads of one fixed range of the device, first and last in each state: what the layout cannot change."""
    taken = frame[(frame["status"] == "valid") & (frame["kind"] == "reference") & frame[REFERENCE].notna()]
    taken = taken.sort_values(["began", "state", "order"], kind="stable")
    if taken.empty:
        return "", []
    points = taken.assign(x=range(1, len(taken) + 1), y=taken[REFERENCE] / taken[REFERENCE].median())
    points["kind"] = points["cell"].str.replace("_", " ")
    pairs = taken.pivot_table(index="state", columns="cell", values=REFERENCE, sort=False, aggfunc="last")
    pairs = pairs.reindex(columns=["reference_before", "reference_after"]).dropna()
    ratios = (pairs["reference_after"] / pairs["reference_before"]).tolist()
    words = [
        f"Between states: one fixed range of the device was read before and after {len(pairs)} states, "
        f"from {points['y'].min():.3f}x to {points['y'].max():.3f}x of the median of these {len(points)} passes."
    ]
    if ratios:
        held = median_interval(ratios)
        interval = f" ({held.low:.3f}-{held.high:.3f}, {held.level:.1%})" if held else " (too few for an interval)"
        words.append(f"After a state they reach {pd.Series(ratios).median():.3f}x of before{interval}.")
    result = trend(points["y"].tolist())
    if result.p is None:
        words.append(f"Over the study: {result.why}.")
    else:
        way = "no drift" if result.p > ALPHA else "a rise" if (result.tau or 0) > 0 else "a fall"
        words.append(f"Over the study: {way} (Kendall's tau {result.tau:+.2f}, p={result.p:.2g}).")
    panel = drift_panel(
        "Passes over a fixed range",
        points[["x", "y", "kind"]],
        "pass, in the order of time",
        "pass over the median of all",
        stamp,
    )
    return " ".join(words), [panel]


def _over_group(taken: pd.DataFrame, measure: str, centre: Callable[[pd.Series], float]) -> pd.DataFrame:
    """Those with a group, of like layout and conditions: `y` is over the centre of its `size` planned samples."""
    mine = taken.assign(layout_digest=taken["layout_digest"].fillna("unknown"))
    mine = mine.assign(setting=labelled(taken)["setting"])
    keys = [*AXES, "setting", "layout_digest"]
    centres = mine[mine["kind"] == "planned"].groupby(keys, dropna=False)[measure].agg(centre=centre, size="size")
    known = mine.merge(centres, how="left", left_on=keys, right_index=True)
    return known.assign(y=known[measure] / known["centre"]).dropna(subset="y")
