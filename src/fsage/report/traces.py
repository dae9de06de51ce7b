"""Requests to the device during the traced cells: offset against time, states side by side."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
from pydantic import BaseModel, ValidationError, model_validator

from fsage.figures import Axis, Cloud, Figure, Trace
from fsage.model.errors import in_words
from fsage.report.evidence import first_problem
from fsage.report.section import Section

SMALL = 8
USUAL = 0.9
"""Of all requests, those that are at most as large as the usual one."""


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


def section(records: Iterable[Path]) -> Section | None:
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
            outside = int((~small["offset_bytes"].between(low - room, high + room)).sum())
            figures.append(
                Trace(
                    f"Requests at {state.split('@')[0]}, {phase} phase",
                    _cloud("reads", data[~data["write"]]),
                    _cloud("writes", data[data["write"]]),
                    time,
                    place,
                    _cloud("small ones", small),
                    note=f"small requests elsewhere: {outside}" if outside else "",
                )
            )
    return figures


def _is_small(requests: pd.DataFrame) -> pd.Series:
    """Which are far smaller than what is usual: not of the file that is written or read."""
    return requests["bytes"] * SMALL < requests["bytes"].quantile(USUAL)


def _cloud(kind: str, requests: pd.DataFrame) -> Cloud:
    return Cloud(kind, tuple(requests["seconds"]), tuple(requests["offset_bytes"]))
