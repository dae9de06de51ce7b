"""What speaks against the numbers of a report, on top of it and in tables.

What could not be had or known, with its reason. Signs of trouble during cells, as records have them. And whether
anything changed while it was measured, within a state and from state to state, in the order of time.
"""

from __future__ import annotations

from collections import Counter

import pandas as pd

from fsage.analysis.groups import Measure, measures, samples
from fsage.analysis.validity import drifts, in_groups, over_group
from fsage.analysis.words import paragraph
from fsage.base.sizes import counted, duration
from fsage.figures import Axis, Cloud, RunChart
from fsage.report.parts import Section
from fsage.statistics import ALPHA, median_interval, trend

FIRST = 3
"""Reasons on the first screen."""


def absent_sentences(frame: pd.DataFrame) -> list[str]:
    """Sentences for the first screen, a reason each; none where nothing is absent."""
    by_reason: dict[str, list[str]] = {}
    for what, why, _ in _rows(frame):
        by_reason.setdefault(why, []).append(what)
    shown = [f"Not had or known: {', '.join(whats)}: {why.removesuffix('.')}." for why, whats in by_reason.items()]
    return shown[:FIRST] + ([f"{len(shown) - FIRST} more reasons are below."] if len(shown) > FIRST else [])


def absent_section(frame: pd.DataFrame) -> Section | None:
    """All that is absent, a row each."""
    rows = _rows(frame)
    if not rows:
        return None
    text = "A cell that cannot run here is unsupported. What could not be read or set beside others is absent."
    table = [["what", "why", "cells"], *([what, why, str(count)] for what, why, count in rows)]
    return Section("What could not be had or known", text, [], table=table)


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


def signs_sentences(frame: pd.DataFrame) -> list[str]:
    """A sentence for the first screen; none where no sample has a warning."""
    warned = frame[(frame["status"] == "valid") & frame["warnings"].notna()]
    if warned.empty:
        return []
    first = warned.iloc[0]
    return [
        f"{len(warned)} of {int((frame['status'] == 'valid').sum())} valid samples have signs of trouble, the first "
        f"{first['state']} {first['cell']}: {first['warnings'].removesuffix('.')}."
    ]


def waits(frame: pd.DataFrame) -> list[str]:
    """A sentence on how often and how long the run waited for others; none where it never did."""
    waited = frame[frame["waits"].fillna(0) > 0]
    if waited.empty:
        return []
    first = waited.iloc[0]
    return [
        f"The run waited {int(waited['waits'].sum())} times, {duration(waited['wait_seconds'].sum())} in all, because "
        f"others suffered (stop_if): the first time before {first['state']} {first['cell']}."
    ]


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
    if len(warned) > SIGNS_SHOWN:
        more = [f"{len(warned) - SIGNS_SHOWN} more cells are in records.csv."]
    else:
        more = []
    return Section("Signs of trouble", text, [], warnings=more, table=[["state", "cell", "status", "what"], *rows])


REFERENCE = "read_bw_mib_s"
TRENDS_SHOWN = 3


def drift_section(frame: pd.DataFrame) -> Section | None:
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
    taken = in_groups(taken.assign(x=range(1, len(taken) + 1)))
    figures = []
    words = []
    for measure in measures(taken):
        measured = over_group(taken[taken[measure].notna()], measure, pd.Series.median)
        apart = measured.loc[measured["kind"] == "sentinel", "y"]
        if apart.empty:
            continue
        name = Measure.of(measure).name
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
    if len(drifting) > TRENDS_SHOWN:
        more = [f"{len(drifting) - TRENDS_SHOWN} more"]
    else:
        more = []
    return f"{text} {paragraph([*drifting[:TRENDS_SHOWN], *more])}".strip(), []


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
        bounds = median_interval(ratios)
        if bounds:
            interval = f" ({bounds.low:.3f}-{bounds.high:.3f}, {bounds.level:.1%})"
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
