"""Quarantine records, so that the next run measures their cells again. Raw output stays where it is."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from fsage.plan import results
from fsage.plan.plan import Plan


def folder(plan: Plan) -> Path:
    """Where it goes."""
    return plan.results.root / "quarantine" / plan.target.name / plan.study.name


def quarantine_records(plan: Plan, chosen: Callable[[str, str], bool], statuses: set[str]) -> int:
    """Move the records of the cells that are `chosen` by state and name and have one of `statuses` (none: any).

    The evidence of a state of which no record is left goes with them: by then the state may be another one. Returns how
    many records were moved. Raises ValueError for a record that cannot be read.
    """
    moved, touched = 0, set()
    for state, cell in plan.all_cells():
        if not chosen(state, cell.name):
            continue
        path = plan.results.record(state, cell.name)
        record = results.read(path)
        if statuses and not (record and record["status"] in statuses):
            continue
        touched.add(state)
        if record:
            _move(path, folder(plan) / state / f"{cell.name}.{record['attempt']}.json")
            moved += 1
    left = plan.results.existing_records()
    for state in sorted(touched):
        if not left.get(state):
            plan.results.evidence(state).unlink(missing_ok=True)
            if (evidence := plan.results.state(state)).exists():
                _move(evidence, folder(plan) / f"{state}.{time.time_ns()}.json")
    return moved


def _move(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, to)
