"""How single requests went: how long reads and writes took, and where on the device they were.

Percentiles of completion latency, where the tool gives them. Requests to the device during the traced cells: offset
against time, states side by side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pandas as pd
from pydantic import BaseModel, ValidationError, model_validator

from fsage.analysis.groups import counts, medians, params_labels
from fsage.analysis.words import NONE
from fsage.base import in_words
from fsage.base.sizes import round_size, significant
from fsage.figures import Axis, Cloud, Figure, Lines, Trace, lines, placed
from fsage.report.evidence import first_problem
from fsage.report.parts import Section

PERCENTILES = {"p50": "p50", "p99": "p99", "p99_9": "p99.9"}
MOST_STATES = 6


def latencies(samples: pd.DataFrame, states: Sequence[str]) -> Section | None:
    """A table of the states that are compared, a figure a phase at the smallest transfer; None where no tool gives any.

    `samples`: labelled. `states`: those of the study's comparisons, in planned order; where there are none, all.
    """
    names = [name for name in samples.columns if "_latency_p" in name and samples[name].notna().any()]
    if not names:
        return None
    usual = samples[samples["main"] & samples[names].notna().any(axis="columns")]
    short = usual["state"].str.partition("@")[0]
    taken = {*usual["state"], *short}
    shown = list(filter(taken.__contains__, dict.fromkeys(states or usual["state"])))[:MOST_STATES]
    rows = medians(usual[usual["state"].isin(shown) | short.isin(shown)], names)
    if rows.empty:
        return None
    rows = rows.join(rows["measure"].str.extract("(?P<phase>.+)_latency_(?P<percentile>.+)_ms"))
    rows = rows.assign(short=rows["state"].str.partition("@")[0])
    phases = list(dict.fromkeys(rows["phase"]))
    smallest = rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].min()]
    figures = [_latencies_figure(phase, smallest[smallest["phase"] == phase], shown) for phase in phases]
    text = (
        "Completion latency of single transfers as fio counts it: the median over the iterations "
        f"(n = {counts(rows)}) of each percentile. Percentiles are shown only with enough transfers: 100 for p99, "
        "1000 for p99.9."
    )
    return Section("Latency", text, list(filter(None, figures)), table=_table(rows, phases))


def _latencies_figure(phase: str, rows: pd.DataFrame, states: Sequence[str]) -> Lines | None:
    """Percentiles side by side, a series a state; None where there is but the median, which the bandwidth tells too."""
    places = [name for name in PERCENTILES if (rows["percentile"] == name).any()]
    if len(places) < 2:
        return None
    rows = rows[rows["params"] == rows["params"].iloc[0]]
    samples = rows["samples"].explode()
    ends = samples[samples > 0]
    if ends.empty:
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
    known = set(zip(rows["phase"], rows["percentile"], strict=True))
    heads = []
    names = []
    for phase in phases:
        for name, called in PERCENTILES.items():
            if (phase, name) in known:
                heads.append((phase, name))
                names.append(f"{phase} {called}, ms")
    table = [["state", "parameters", *names]]
    labels = params_labels(rows)
    for (state, _, params), part in rows.groupby(["state", "transfer_size_bytes", "params"], dropna=False):
        medians = part.set_index(["phase", "percentile"])["median"].map(partial(significant, digits=4)).to_dict()
        table.append([str(state), labels[str(params)], *(medians.get(head, NONE) for head in heads)])
    return table


SMALL = 8
USUAL = 0.9
"""Requests that are at most as large as the usual one."""


class Columns(BaseModel):
    """A request a row: when it was issued after the phase began, where on the device, how much, which way."""

    seconds: list[float]
    offset_bytes: list[int]
    bytes: list[int]
    write: list[bool]

    @model_validator(mode="after")
    def _alike(self) -> Columns:
        if len({len(self.seconds), len(self.offset_bytes), len(self.bytes), len(self.write)}) > 1:
            raise ValueError("the columns are not equally long")
        return self


class OfPhase(BaseModel):
    """A phase's trace, or why there is none."""

    source: str = ""
    device: str = ""
    lost_events: int = 0
    columns: Columns | None = None
    why_none: str | None = None


@dataclass
class Found:
    """Requests by phase and state, and a sentence for all that is not or not whole."""

    requests: dict[str, dict[str, pd.DataFrame]] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)


def traced(records: Iterable[Path]) -> Section | None:
    """The traces in the records of traced cells, those of one phase side by side; nothing where no cell was traced."""
    traces = Found()
    taken = [path for path in records if path.exists()]
    for path in taken:
        _read(path, traces)
    if not taken:
        return None
    text = (
        "Each mark is a request: where it began, and when it was issued to the device. Traced cells are diagnostic "
        f"and enter no other figure. The panels of a phase share both axes. Dots are small requests, below 1/{SMALL} "
        "of the usual size, such as those for metadata. Small requests outside the axes are only counted."
    )
    if traces.sources:
        text += f" Source: {', '.join(sorted(traces.sources))}."
    return Section("Requests to the device", text, _figures(traces), warnings=traces.warnings)


def _read(path: Path, traces: Found) -> None:
    try:
        record = json.loads(path.read_bytes())
        state = record["state"]
        phases = record["phases"]
        status = record["status"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        traces.warnings.append(f"{path}: not a readable record ({in_words(error)}); its traces are not shown.")
        return
    if status != "valid":
        traces.warnings.append(f"{state}: the traced cell is {status} ({record.get('why')}).")
    for phase in phases:
        place = f"{state}, {phase['name']}"
        if phase.get("trace") is None:
            traces.warnings.append(f"{place}: the record holds no trace.")
            continue
        try:
            trace = OfPhase.model_validate(phase["trace"])
        except ValidationError as error:
            traces.warnings.append(f"{place}: the trace is broken: {first_problem(error)}.")
            continue
        if trace.lost_events:
            traces.warnings.append(f"{place}: {trace.lost_events} events were lost; the picture has gaps.")
        if trace.columns is None or not trace.columns.seconds:
            traces.warnings.append(f"{place}: no trace: {trace.why_none or 'no request was seen'}.")
            continue
        traces.sources.add(f"{trace.source} on {trace.device}")
        traces.requests.setdefault(phase["name"], {})[state] = pd.DataFrame(trace.columns.model_dump())


def _figures(traces: Found) -> list[Figure]:
    figures: list[Figure] = []
    for phase, by_state in traces.requests.items():
        apart = {state: _is_small(requests) for state, requests in by_state.items()}
        every = pd.concat(requests[~apart[state]] for state, requests in by_state.items())
        low = every["offset_bytes"].min()
        high = (every["offset_bytes"] + every["bytes"]).max()
        room = 0.04 * (high - low)
        last = max(requests["seconds"].max() for requests in by_state.values())
        time = Axis("time, s", (-0.02 * last, 1.02 * last))
        place = Axis("place on the device, GiB", (low - room, high + room))
        for state, requests in by_state.items():
            data = requests[~apart[state]]
            small = requests[apart[state]]
            kinds = {"reads": data[~data["write"]], "writes": data[data["write"]], "small ones": small}
            clouds = [Cloud(kind, tuple(part["seconds"]), tuple(part["offset_bytes"])) for kind, part in kinds.items()]
            outside = int((~small["offset_bytes"].between(low - room, high + room)).sum())
            note = f"small requests elsewhere: {outside}" if outside else ""
            title = f"Requests at {state.split('@')[0]}, {phase} phase"
            figures.append(Trace(title, tuple(clouds), time, place, note=note))
    return figures


def _is_small(requests: pd.DataFrame) -> pd.Series:
    """Which are far smaller than what is usual: not of the file that is written or read."""
    return requests["bytes"] * SMALL < requests["bytes"].quantile(USUAL)
