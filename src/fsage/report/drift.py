"""Did anything change while it was measured? Within a state and from state to state, in the order of time."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.drift import drifts, over_group
from fsage.analysis.groups import measure_label, measures, samples
from fsage.figures import Axis, Cloud, RunChart
from fsage.report.section import Section
from fsage.statistics import ALPHA, median_interval, trend

REFERENCE = "read_bw_mib_s"
SHOWN = 3


def section(frame: pd.DataFrame) -> Section | None:
    """Samples and sentinels over their group, trends within states, and the reference reads between them."""
    drawn = [_sentinels(frame), _trends(frame), _reference_reads(frame)]
    sentences = [words for words, _ in drawn if words]
    figures = [figure for _, figures in drawn for figure in figures]
    if sentences:
        return Section("Drift", " ".join(sentences), [*figures])
    return None


def _sentinels(frame: pd.DataFrame) -> tuple[str, list[RunChart]]:
    """Every sample over the median of the planned ones in its group; nothing where no sentinel was taken."""
    taken = frame[(frame["status"] == "valid") & frame["kind"].isin(["planned", "sentinel"])]
    taken = taken.sort_values(["began", "state", "order_in_state"], kind="stable")
    taken = taken.assign(x=range(1, len(taken) + 1))
    figures = []
    words = []
    for measure in measures(taken):
        measured = over_group(taken[taken[measure].notna()], measure, pd.Series.median)
        apart = measured.loc[measured["kind"] == "sentinel", "y"]
        if apart.empty:
            continue
        name = measure_label(measure)[0]
        words.append(
            f"{name.capitalize()}s: {len(apart)} sentinels, median {apart.median():.3f}x of their group, "
            f"from {apart.min():.3f}x to {apart.max():.3f}x."
        )
        figures.append(
            RunChart(
                f"Drift of {name}s",
                _clouds(measured, ("planned", "sentinel")),
                Axis("measurement, in the order of time"),
                Axis("sample over its group's median"),
            )
        )
    text = "Sentinels are one cell measured again and again within a state; they enter no other figure or table."
    return (" ".join([text, *words]) if words else ""), figures


def _trends(frame: pd.DataFrame) -> tuple[str, list[RunChart]]:
    tested = drifts(frame)
    drifting = tested.found
    if not tested.tests:
        return ("" if samples(frame).empty else "Too few samples in each state for a trend test."), []
    text = f"Within states, {len(drifting)} of {tested.tests} trend tests (Kendall, over time) find a drift, under "
    text += "false-discovery control."
    if len(drifting) > SHOWN:
        more = [f"{len(drifting) - SHOWN} more"]
    else:
        more = []
    found = [f"{trend[:1].upper()}{trend[1:]}." for trend in [*drifting[:SHOWN], *more]]
    return " ".join([text, *found]), []


def _reference_reads(frame: pd.DataFrame) -> tuple[str, list[RunChart]]:
    """The reads of one fixed range of the device, first and last in each state: what the layout cannot change."""
    taken = frame[(frame["status"] == "valid") & (frame["kind"] == "reference") & frame[REFERENCE].notna()]
    taken = taken.sort_values(["began", "state", "order_in_state"], kind="stable")
    if taken.empty:
        return "", []
    points = taken.assign(x=range(1, len(taken) + 1), y=taken[REFERENCE] / taken[REFERENCE].median())
    points["kind"] = points["cell"].str.replace("_", " ")
    pairs = taken.pivot_table(index="state", columns="cell", values=REFERENCE, sort=False, aggfunc="last")
    pairs = pairs.reindex(columns=["reference_before", "reference_after"]).dropna()
    ratios = (pairs["reference_after"] / pairs["reference_before"]).tolist()
    words = [
        f"Between states: one fixed range of the device was read before and after {len(pairs)} states, "
        f"from {points['y'].min():.3f}x to {points['y'].max():.3f}x of the median of these {len(points)} reads."
    ]
    if ratios:
        held = median_interval(ratios)
        if held:
            interval = f" ({held.low:.3f}-{held.high:.3f}, {held.level:.1%})"
        else:
            interval = " (too few for an interval)"
        words.append(f"After a state they reach {pd.Series(ratios).median():.3f}x of before{interval}.")
    result = trend(points["y"].tolist())
    if result.p is None:
        words.append(f"Over the study: {result.why}.")
    else:
        if result.p > ALPHA:
            way = "no drift"
        else:
            way = "a rise" if (result.tau or 0) > 0 else "a fall"
        words.append(f"Over the study: {way} (Kendall's tau {result.tau:+.2f}, p={result.p:.2g}).")
    figure = RunChart(
        "Reference reads of a fixed range",
        _clouds(points, ("reference before", "reference after")),
        Axis("reference read, in the order of time"),
        Axis("rate over the median of all"),
    )
    return " ".join(words), [figure]


def _clouds(points: pd.DataFrame, kinds: tuple[str, ...]) -> tuple[Cloud, ...]:
    """Those of `kinds` that there are."""
    of_kind = [(kind, points[points["kind"] == kind]) for kind in kinds]
    return tuple(Cloud(kind, tuple(part["x"]), tuple(part["y"])) for kind, part in of_kind if len(part))
