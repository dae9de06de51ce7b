"""The store: the records of a plan's cells, and of each state a manifest that names them.

A state's job writes the manifest for Snakemake when each planned cell has a record, or a reason why it has none: the
stop rule, or a budget. Records are nobody's output. What is not wanted any more is quarantined, and measured again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

from fsage.base import typed
from fsage.base.message import Unacceptable
from fsage.model.claim import Claim
from fsage.plan import Plan, results
from fsage.plan.target import load_claim
from fsage.records.messages import check_claim
from fsage.study.cells import Cell

SKIPPED = "skipped"
"""The status of a cell that has a reason in place of a record."""


LEFT_OUT = "the time was over before, and a primary comparison needs them"
"""What the reason of a skipped cell begins with, where the question of the study is not answered without it."""


class Reason(NamedTuple):
    """Why a cell is not measured, and the rates that measured cells predict of it, as columns of the table."""

    why: str
    predicted: Mapping[str, float] = {}


class Tried(TypedDict):
    """What a record says of its cell."""

    status: str
    attempt: typed.Attempt


class Measured(TypedDict):
    """What a record says of its rates."""

    status: str
    metrics: dict[str, float]


def metrics_of(plan: Plan, state: str, cell: Cell) -> dict[str, float] | None:
    """The rates of a cell, {} where it is not valid; None where it was not measured. Raises ValueError."""
    measured = results.read_as(Measured, plan.results.record(state, cell.name))
    if measured is None:
        return None
    return measured["metrics"] if measured["status"] == "valid" else {}


def write_manifest(plan: Plan, state: str, reasons: Mapping[str, Reason]) -> list[Cell]:
    """Write the manifest of a state, with the `reasons` for cells that are not to be measured.

    What an earlier manifest skipped stays skipped. Returns the cells that have neither a record nor a reason: then no
    manifest is written.
    """
    before = plan.skipped(state)
    rows = []
    lacking = []
    for cell in plan.cells[state]:
        record = plan.results.record(state, cell.name)
        row = {"cell": cell.name, "kind": cell.kind, "order": cell.order, "params": cell.params}
        if record.exists():
            row |= {"record": str(record.relative_to(plan.results.root)), "why": None}
        elif cell.name in reasons:
            reason = reasons[cell.name]
            row |= {"record": None, "why": reason.why, "predicted": dict(reason.predicted)}
        elif cell.name in before:
            row = {**before[cell.name], **row, "record": None}
        else:
            lacking.append(cell)
        rows.append(row)
    if lacking:
        return lacking
    manifest = {
        "study": plan.study.name,
        "target": plan.target.name,
        "state": state,
        "nominal": plan.states[state].nominal,
        "cells": rows,
    }
    results.write(plan.results.manifest(state, plan.cells[state]), manifest)
    return []


def quarantine_folder(plan: Plan) -> Path:
    """Where records go that are not wanted any more."""
    return plan.results.root / "quarantine" / plan.target.name / plan.study.name


def claim_of(copy: Path) -> Claim | None:
    """The copy of a target's claim; None before the target was claimed. Raises ValueError for another release's."""
    claim = load_claim(copy)
    if claim is None:
        return None
    try:
        check_claim(claim)
    except Unacceptable as why:
        raise ValueError(
            f"{copy}: the target's claim {why}. An earlier release of fsage may have made it. Move the file "
            f"away, release the target (`./run fsage release --target {copy.stem}`) and give the same command "
            "again; nothing was touched"
        ) from None
    return claim


def quarantine(plan: Plan, chosen: Callable[[str, str], bool], statuses: set[str]) -> int:
    """Have the cells measured again that are `chosen` by state and name and have one of `statuses` (none: any).

    Their records are moved, and what skipped them is struck from the manifests. Raw output stays where it is. The
    evidence of a state of which no record is left goes with them: by then the state may be another one. Returns how
    many cells they are. Raises ValueError for a record that cannot be read.
    """
    count = 0
    for state, cells in plan.cells.items():
        names = {cell.name for cell in cells if chosen(state, cell.name)}
        for name in sorted(names & plan.results.recorded(state)):
            path = plan.results.record(state, name)
            record = results.read_as(Tried, path)
            if record and (not statuses or record["status"] in statuses):
                _move(path, quarantine_folder(plan) / state / f"{name}.{record['attempt']}.json")
                count += 1
        if not statuses or SKIPPED in statuses:
            struck = names & plan.skipped(state).keys() - plan.results.recorded(state)
            strike(plan, state, struck)
            count += len(struck)
        if names and not plan.results.recorded(state) and plan.results.state(state).exists():
            _move(plan.results.state(state), quarantine_folder(plan) / f"{state}.{time.time_ns()}.json")
    return count


def strike(plan: Plan, state: str, names: set[str]) -> None:
    """Strike the reasons of cells, if there are any, from a state's manifests."""
    if not names & plan.results.skipped(state).keys():
        return
    for path in plan.results.manifests_of(state):
        manifest = results.read(path)
        manifest["cells"] = [row for row in manifest["cells"] if not row["why"] or row["cell"] not in names]
        results.write(path, manifest)


def _move(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, to)
