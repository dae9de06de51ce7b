"""Counts beside timed cells: what they let one expect of a study's cells, and whether timed ones lie as counted.

On a modelled device rates follow from where the bytes lie.
"""

from __future__ import annotations

import time
from statistics import median

import pandas as pd

from fsage.analysis.words import sentences
from fsage.base import Failure, Refusal
from fsage.base.message import say
from fsage.count.work import Counted, count
from fsage.model import counting
from fsage.model.device import Model
from fsage.plan import Plan
from fsage.report import layout as lies
from fsage.report.parts import Section
from fsage.study import StudyError
from fsage.study.comparisons import unseeded

SHARE = 0.2
"""The largest share of a run's time that is spent on counting."""
Expected = dict[tuple[str, str], float]
"""State and cell -> the share of the rate that a whole file would have.

The rate itself is not expected: small transfers have a seventh of what the device's charges allow.
"""


def expected(plan: Plan, seconds: float) -> Expected:
    """Count a study's layouts, for at most a share of these `seconds`, and compute what is expected of its cells.

    A cell's share is that of a file of the largest transfer at the first place, in its own layout where that was
    counted, else the median of its state. Empty where the device has no model, or a state has no count.
    """
    device = plan.target.spec["device_model"]
    if not device or not Model.of(device).is_computable:
        return {}
    sizes = {cell.params["transfer_size"] for _, cell in plan.all_cells() if cell.kind == "planned"}
    layouts = max(state.nominal.get("structure", 1) for state in plan.states.values())
    try:
        counted = _in_time(plan, device, layouts, SHARE * seconds)
    except (StudyError, Refusal, Failure) as why:
        say(f"{plan.title}: not counted: {why}")
        return {}
    shares: dict[tuple[str, int | None], dict[int, float]] = {}  # of a state and a transfer, by layout
    for layout, row in counted.files():
        for size in sizes:
            if row["extents"]:  # else it could not be written
                cost = counting.cost(counted.device, row["extents"], size, counted.device_bytes)
                of_layouts = shares.setdefault((layout.state, size), {})
                of_layouts.setdefault(layout.number, cost["whole_seconds"] / cost["seconds"])
    found: Expected = {}
    for state, cell in plan.all_cells():
        of_state = shares.get((unseeded(state), cell.params.get("transfer_size")))
        if of_state:
            number = plan.states[state].nominal.get("structure", 1)
            found[state, cell.name] = of_state.get(number, median(of_state.values()))
        elif cell.kind == "planned":
            return {}
    return found


def _in_time(plan: Plan, device: object, layouts: int, seconds: float) -> Counted:
    """The counts of as many layouts of each state as `seconds` suffice for: one at least."""
    began = time.monotonic()
    for number in range(1, layouts + 1):
        counted = Counted.of(plan, number, 1, device, plan.results.counts / "budget")
        count(counted)
        spent = time.monotonic() - began
        if spent * (number + 1) / number > seconds:
            break
    say(f"{plan.title}: {number} of {layouts} layouts of each state counted, in {spent:.0f} s")
    return counted


def against_timed(frame: pd.DataFrame, records: pd.DataFrame) -> Section | None:
    """Whether timed cells lie as counted, and how far jumps explain their time; None where nothing was timed."""
    if len(records):
        valid = records[(records["status"] == "valid") & (records["kind"] == "planned")]
    else:
        valid = records
    if valid.empty:
        return None
    largest = valid[valid["transfer_size_bytes"] == valid["transfer_size_bytes"].max()]
    table = lies.slopes(largest)
    same, both = _alike(frame, valid)
    text = sentences("timed", same=same, both=both, lines=bool(table), least=lies.LEAST)
    figure = lies.over_jumps(largest)
    figures = [figure] if figure else []
    rows = [lies.HEADS, *table] if table else []
    return Section("Counted against timed", " ".join(text), figures, table=rows, front=len(figures))


def _alike(frame: pd.DataFrame, valid: pd.DataFrame) -> tuple[int, int]:
    """How many timed files lie exactly as it was counted, of how many in a layout that was counted."""
    timed = valid.dropna(subset=["measured_extents"]).assign(
        state=valid["state"].map(unseeded), place=valid["place"].fillna(1)
    )
    timed = timed.drop_duplicates(["state", "layout_digest", "place", "transfer_size_bytes"])
    both = timed.merge(frame, on=["state", "layout_digest", "place", "transfer_size_bytes"], suffixes=("_timed", ""))
    same = (both["measured_extents"] == both["extents"]) & (
        (both["measured_mean_position"] - both["mean_position"]).abs() < 1e-6
    )
    return int(same.sum()), len(both)
