"""How long single reads and writes took: percentiles of completion latency, where the tool gives them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from fsage.analysis.groups import counts, medians, params_labels
from fsage.analysis.words import NONE
from fsage.figures import Axis, Lines, lines, placed
from fsage.report.section import Section
from fsage.text.sizes import round_size

PERCENTILES = {"p50": "p50", "p99": "p99", "p99_9": "p99.9"}
MOST_STATES = 6


def section(frame: pd.DataFrame, states: Sequence[str]) -> Section | None:
    """A table of the states that are compared, a figure a phase at the smallest transfer; None where no tool gives any.

    `states`: those of the study's comparisons, in planned order; where there are none, all.
    """
    names = [name for name in frame.columns if "_latency_p" in name and frame[name].notna().any()]
    rows = medians(frame, names) if names else pd.DataFrame()
    if not len(rows):
        return None
    rows = rows[rows["main"]].assign(
        phase=rows["measure"].str.partition("_latency_")[0],
        percentile=rows["measure"].str.partition("_latency_")[2].str.removesuffix("_ms"),
        short=rows["state"].str.partition("@")[0],
    )
    taken = {*rows["state"], *rows["short"]}
    shown = [name for name in dict.fromkeys(states or rows["state"]) if name in taken][:MOST_STATES]
    rows = rows[rows["state"].isin(shown) | rows["short"].isin(shown)]
    if rows.empty:
        return None
    phases = list(dict.fromkeys(rows["phase"]))
    smallest = rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].min()]
    figures = [
        drawn for phase in phases if (drawn := _figure(phase, smallest[smallest["phase"] == phase], shown)) is not None
    ]
    text = (
        "Completion latency of single transfers as fio counts it: the median over the iterations "
        f"(n = {counts(rows)}) of each percentile. Percentiles are shown only with enough transfers: 100 for p99, "
        "1000 for p99.9."
    )
    return Section("Latency", text, list(figures), table=_table(rows, phases))


def _figure(phase: str, rows: pd.DataFrame, states: Sequence[str]) -> Lines | None:
    """Percentiles side by side, a series a state; None where there is but the median, which the bandwidth tells too."""
    places = [name for name in PERCENTILES if (rows["percentile"] == name).any()]
    if len(places) < 2:
        return None
    rows = rows[rows["params"] == rows["params"].iloc[0]]
    ends = [end for taken in rows["samples"] for end in taken if end > 0]
    if not ends:
        return None
    called = rows["state"].where(rows["state"].isin(list(states)), rows["short"])
    by_percentile, _ = placed(rows.assign(called=called).drop(columns="state"), "percentile", places)
    x = Axis("percentile", ticks={float(place): PERCENTILES[name] for place, name in enumerate(places)})
    y = Axis("completion latency, ms", *_decades(min(ends), max(ends)), log=True)
    title = f"Latency of {phase}s of {round_size(rows['transfer_size_bytes'].iloc[0])}"
    labels = {state: state for state in states}
    return lines(title, by_percentile, "called", x, y, labels=labels, joined=False)


def _decades(low: float, high: float) -> tuple[tuple[float, float], dict[float, str]]:
    """Limits of a logarithmic axis and its ticks: 1, 2, 5 and 10 of each decade, or 1 and 10 of many."""
    first = math.floor(math.log10(low))
    last = math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    levels = [step * 10.0**decade for decade in range(first, last + 1) for step in steps]
    below = max((level for level in levels if level <= low), default=low)
    above = min((level for level in levels if level >= high), default=high)
    return (below * 0.9, above * 1.1), {level: f"{level:g}" for level in levels if below <= level <= above}


def _table(rows: pd.DataFrame, phases: Sequence[str]) -> list[list[str]]:
    """A row a state and set of parameters."""
    heads = [(phase, name) for phase in phases for name in PERCENTILES]
    heads = [head for head in heads if ((rows["phase"] == head[0]) & (rows["percentile"] == head[1])).any()]
    table = [["state", "parameters", *(f"{phase} {PERCENTILES[name]}, ms" for phase, name in heads)]]
    labels = params_labels(rows["params"])
    for (state, _, params), part in rows.groupby(["state", "transfer_size_bytes", "params"], dropna=False):
        median_texts = {(row["phase"], row["percentile"]): f"{row['median']:.4g}" for row in part.to_dict("records")}
        table.append([str(state), labels[str(params)], *(median_texts.get(head, NONE) for head in heads)])
    return table
