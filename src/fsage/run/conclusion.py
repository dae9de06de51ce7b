"""The end of a study: records against plan, the report, the headline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fsage import dataset, report
from fsage.analysis import agreement, truth
from fsage.plan import results
from fsage.plan.plan import Plan
from fsage.run import request
from fsage.study.study import Cell, StudyError

SHOWN = 10


def conclude(plan: Plan) -> tuple[list[str], int]:
    """Lines for the terminal, and the exit code: 0 only when every planned cell has a record that did not fail.

    Nor is it 0 where cells that were to compute the same did not, or planted values were not recovered.
    """
    status: Counter[str] = Counter()
    wrong = [
        f"evidence of another plan: {path}; {request.aside(plan, state)}"
        for state in plan.states
        if (evidence := results.read(path := plan.results.state(state)))
        and not request.is_planned(plan, state, evidence.get("steps"))
    ]
    failed: list[str] = []
    for state, cell in plan.all_cells():
        path = plan.results.record(state, cell.name)
        try:
            found = results.read(path)
        except ValueError as error:
            found = {"status": "unreadable", "why": str(error), "params": None}
        status[found["status"] if found else "missing"] += 1
        if found is None:
            wrong.append(f"missing: {state} {cell.name}")
        elif found["status"] == "unreadable":
            wrong.append(found["why"])
        elif not _is_of(plan, state, cell, found):
            wrong.append(f"taken for another plan: {path}; {request.aside(plan, state)}")
        elif found["status"] == "failed":
            failed.append(f"failed: {state} {cell.name}: {found['why']}")
    lines = [f"{plan.study.name}: " + ", ".join(f"{count} {name}" for name, count in sorted(status.items()))]
    frame = dataset.load(_paths(plan))
    differ = agreement.disagreements(frame) + truth.failures(frame)
    for several in (wrong, failed, differ):
        lines += several[:SHOWN] + ([f"… and {len(several) - SHOWN} more"] if len(several) > SHOWN else [])
    if failed:
        lines.append(
            f"to measure just the failed ones again: fsage remeasure {plan.study.name} --failed && "
            f"snakemake {plan.study.name}"
        )
    lines += report.answer_lines(frame, plan.study, list(plan.states))
    lines.append(f"report: {plan.results.report / 'index.html'}")
    return lines, 1 if wrong or failed or differ else 0


def write_report(plan: Plan, study_file: Path) -> Path:
    """Make report and tables from the records; return the page."""
    frame = dataset.load(_paths(plan))
    return report.build(plan.study, plan.target, frame, plan.results.report, **_more(plan), config=study_file)


def write_figures(plan: Plan, columns: int) -> Path:
    """Draw the report's figures as wide as so many columns of a paper; return their folder.

    Raises StudyError where there is nothing to draw.
    """
    page = report.contents(plan.study, plan.target, dataset.load(_paths(plan)), **_more(plan))
    if not page.figures:
        raise StudyError(
            f"study {plan.study.name} on target {plan.target.name} has no figure yet, for it has no valid record in "
            f"{plan.results.root}; `./run snakemake --config target={plan.target.name} -- {plan.study.name}` measures "
            "it"
        )
    folder = plan.results.report / f"figures-{columns}-column"
    report.draw(page.figures, page.stamp, folder, columns)
    return folder


def _more(plan: Plan) -> dict[str, Any]:
    """What a report shows beside the records."""
    return {
        "plan_cells": plan.all_cells(),
        "states": {name: plan.results.state(name) for name in plan.states},
        "claim": plan.claim,
        "comparison": dataset.load(map(Path, plan.compared_records())) if plan.study.compare else None,
        "traced": [plan.results.record(state, cell.name) for state, cell in plan.all_cells() if cell.kind == "traced"],
    }


def _is_of(plan: Plan, state: str, cell: Cell, found: Mapping[str, Any]) -> bool:
    """Whether a record is what the plan has for a cell."""
    return (
        found["params"] == cell.params
        and found["nominal"] == plan.states[state].nominal
        and request.is_planned(plan, state, found["layout"].get("steps"))
    )


def _paths(plan: Plan) -> list[Path]:
    return [plan.results.record(state, cell.name) for state, cell in plan.all_cells()]
