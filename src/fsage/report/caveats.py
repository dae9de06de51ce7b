"""What speaks against the numbers of a report, on top of it and in tables.

What could not be had or known, with its reason. Signs of trouble during cells, as records have them. And whether
anything changed while it was measured, within a state and from state to state, in the order of time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from fsage.analysis.groups import Measure, measures, samples
from fsage.analysis.validity import drifts, in_groups, over_group
from fsage.analysis.words import sentences
from fsage.base.sizes import counted
from fsage.figures import Axis, Cloud, RunChart
from fsage.report.parts import Section
from fsage.statistics import ALPHA, Interval, Trend, median_interval, trend

FIRST = 3
"""Reasons on the first screen."""


def doubts(frame: pd.DataFrame) -> list[str]:
    """Sentences for the first screen: samples with signs of trouble, waits for others, and what is absent."""
    valid = frame[frame["status"] == "valid"]
    absent: dict[str, list[str]] = {}
    for what, why, _ in _rows(frame):
        absent.setdefault(" ".join(why.split()).removesuffix("."), []).append(what)
    return sentences(
        "doubts",
        valid=len(valid),
        warned=valid.dropna(subset="warnings").to_dict("records"),
        waited=frame[frame["waits"].fillna(0) > 0].to_dict("records"),
        absent=absent,
        shown=FIRST,
    )


def absent_section(frame: pd.DataFrame) -> Section | None:
    """All that is absent, a row each."""
    rows = _rows(frame)
    if not rows:
        return None
    text = "A cell that cannot run here is unsupported. What could not be read or set beside others is absent."
    table = [["what", "why", "cells"], *([what, why, str(count)] for what, why, count in rows)]
    return Section("What could not be had or known", text, table=table)


def _rows(frame: pd.DataFrame) -> list[tuple[str, str, int]]:
    """What is absent, why, and in how many cells; unsupported cells first."""
    unsupported = frame[frame["status"] == "unsupported"]
    counts: Counter[tuple[str, str]] = Counter()
    for (workload, why), cells in unsupported.groupby(["workload", "why"], dropna=False, sort=False):
        counts[f"{counted(len(cells), 'cell')} of workload {workload}", str(why)] = len(cells)
    for text in frame["absent"].dropna():
        for reason in text.split("; "):
            what, _, why = reason.partition(": ")
            counts[what, why] += 1
    return [(what, why, count) for (what, why), count in counts.items()]


SIGNS_SHOWN = 50


def signs_section(frame: pd.DataFrame) -> Section | None:
    """All warnings, a row a cell."""
    warned = frame[frame["warnings"].notna()]
    if warned.empty:
        return None
    rows = warned[["state", "cell", "status", "warnings"]].head(SIGNS_SHOWN).to_numpy().tolist()
    text = (
        "Hosts are looked at before and after each phase: their connections to servers, what was sent again, errors in "
        "the kernel's log. A sample with a sign of trouble stays valid, unless a server evicted its client."
    )
    more = []
    if len(warned) > SIGNS_SHOWN:
        more.append(f"{counted(len(warned) - SIGNS_SHOWN, 'more cell')} in records.csv.")
    return Section("Signs of trouble", text, warnings=more, table=[["state", "cell", "status", "what"], *rows])


REFERENCE = "read_bw_mib_s"
TRENDS_SHOWN = 3


class Reads(NamedTuple):
    """The reads of one fixed range of the device: each over the median of all, and what came of them state by state."""

    points: pd.DataFrame
    states: int
    after: float
    interval: Interval | None
    trend: Trend


def drift_section(frame: pd.DataFrame) -> Section | None:
    """Samples and sentinels over their group, trends within states, and the reference reads between them."""
    sentinels = _sentinels(frame)
    reads = _reference_reads(frame)
    clauses = sentences(
        "drift",
        sentinels={name: points.loc[points["kind"] == "sentinel", "y"] for name, points in sentinels.items()},
        samples=len(samples(frame)),
        drifts=drifts(frame),
        shown=TRENDS_SHOWN,
        reads=reads,
        alpha=ALPHA,
    )
    figures = []
    for name, points in sentinels.items():
        y = "sample over its group's median"
        kinds = ("planned", "sentinel")
        figures.append(_run_chart(f"Drift of {name}s", points, kinds, "measurement, in the order of time", y))
    if reads:
        title = "Reference reads of a fixed range"
        y = "rate over the median of all"
        kinds = ("reference before", "reference after")
        figures.append(_run_chart(title, reads.points, kinds, "reference read, in the order of time", y))
    if clauses:
        return Section("Drift", " ".join(clauses), [*figures])
    return None


def _sentinels(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every sample over the median of the planned ones in its group, by measure; none without any sentinel."""
    taken = frame[(frame["status"] == "valid") & frame["kind"].isin(["planned", "sentinel"])]
    taken = taken.sort_values(["began", "state", "order_in_state"], kind="stable")
    taken = in_groups(taken.assign(x=range(1, len(taken) + 1)))
    found = {}
    for measure in measures(taken):
        points = over_group(taken[taken[measure].notna()], measure, pd.Series.median)
        if (points["kind"] == "sentinel").any():
            found[Measure.of(measure).name] = points
    return found


def _reference_reads(frame: pd.DataFrame) -> Reads | None:
    """Those first and last in each state, which the layout cannot change; None where there are none."""
    taken = frame[(frame["status"] == "valid") & (frame["kind"] == "reference") & frame[REFERENCE].notna()]
    taken = taken.sort_values(["began", "state", "order_in_state"], kind="stable")
    if taken.empty:
        return None
    points = taken.assign(x=range(1, len(taken) + 1), y=taken[REFERENCE] / taken[REFERENCE].median())
    points["kind"] = points["cell"].str.replace("_", " ")
    pairs = taken.pivot_table(index="state", columns="cell", values=REFERENCE, sort=False, aggfunc="last")
    pairs = pairs.reindex(columns=["reference_before", "reference_after"]).dropna()
    ratios = pairs["reference_after"] / pairs["reference_before"]
    interval = median_interval(ratios.tolist()) if len(ratios) else None
    return Reads(points, len(pairs), ratios.median(), interval, trend(points["y"].tolist()))


def _run_chart(title: str, points: pd.DataFrame, kinds: Sequence[str], x: str, y: str) -> RunChart:
    """The points of those of `kinds` that there are, in the order of time."""
    of_kind = [(kind, points[points["kind"] == kind]) for kind in kinds]
    clouds = [Cloud(kind, tuple(part["x"]), tuple(part["y"])) for kind, part in of_kind if len(part)]
    return RunChart(title, tuple(clouds), Axis(x), Axis(y))
