"""The end of a study: records against plan, the report, the headline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from fsage import dataset, report
from fsage.analysis import conditions, truth
from fsage.base import Json, JsonView
from fsage.base.sizes import counted
from fsage.plan import Plan, results
from fsage.plan.pool import Pool
from fsage.plan.target import load_claim
from fsage.records import store
from fsage.report import targets
from fsage.report.parts import Section
from fsage.run import request
from fsage.study import Study, StudyError
from fsage.study.cells import NOT_NEEDED, Cell

SHOWN = 10
FIGURES = (".svg", ".pdf", ".csv")


def conclude(pool: Pool) -> tuple[list[str], int]:
    """Lines for the terminal, and the exit code: 0 only when no planned cell failed or lacks a record without a reason.

    Nor is it 0 where cells that were to compute the same did not, where planted values were not recovered, or where no
    cell could be measured.
    """
    status: Counter[str] = Counter()
    wrong = _other_evidence(pool)
    failed: list[str] = []
    unsupported: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    by_budget = 0
    measured = dataset.load(pool.files())
    rows = _rows(pool, measured)
    for plan, state, cell in pool.cells():
        row = rows.get((plan.target.name, state, cell.name), {"status": "missing"})
        path = plan.results.record(state, cell.name)
        where = f"{state} {cell.name}"
        if pool.several:
            where += f" on {plan.target.name}"
        status[row["status"]] += 1
        if row["status"] == "missing":
            wrong.append(f"missing: {where}")
        elif row["status"] == store.SKIPPED:
            by_budget += not row["why"].startswith(NOT_NEEDED)
            if row["why"].startswith(store.LEFT_OUT):
                left_out[state] += 1
        elif row["status"] == "unreadable":
            wrong.append(f"{path}: {row['why'].partition(': ')[2]}; move it away and give the same command again")
        elif not _is_of(plan, state, cell, results.read(path)):
            wrong.append(f"taken for another plan: {path}; {request.quarantine_remedy(plan, state)}")
        elif row["status"] in ("failed", "stopped"):
            failed.append(f"{row['status']}: {where}: {row['why']}")
        elif row["status"] == "unsupported":
            unsupported[row["why"]] += 1
    study = pool.study
    counts = ", ".join(f"{count} {name}" for name, count in sorted(status.items()))
    lines = [f"{study.name}: {counts}"]
    differ = conditions.disagreements(measured) + truth.failures(measured)
    not_measured = []
    for state, count in left_out.items():
        not_measured.append(f"not measured: {counted(count, 'cell')} of {state}: {store.LEFT_OUT}")
    nothing = []
    if set(status) == {"unsupported"}:
        for why, count in unsupported.items():
            nothing.append(f"nothing was measured: {why} ({counted(count, 'cell')})")
    for problems in (wrong, failed, nothing, not_measured, differ):
        lines += problems[:SHOWN]
        if len(problems) > SHOWN:
            lines.append(f"… and {len(problems) - SHOWN} more")
    if failed:
        lines.append(f"to measure just the failed ones again: {pool.commands.remeasure('--failed')}")
    if by_budget:
        lines.append(f"to measure what a budget left out: {pool.commands.remeasure('--skipped')}")
    pooled = targets.pooled(measured, study, _on_several(pool))
    lines += report.answer_lines(pooled, study, _states(pool), _beside(pool))
    lines.append(_where_the_report_is(pool))
    return lines, int(any((wrong, failed, nothing, left_out, differ)))


def _where_the_report_is(pool: Pool) -> str:
    page = pool.results.report / "index.html"
    if page.exists():
        return f"report: {page}"
    return f"there is no report yet: `{pool.commands.measure}` measures and makes it"


def _other_evidence(pool: Pool) -> list[str]:
    """The evidence of states that are others in the plan now."""
    wrong = []
    for plan in pool.plans:
        for state in plan.states:
            path = plan.results.state(state)
            evidence = results.read_block(path)
            if evidence and not request.is_planned(plan, state, evidence.get("steps")):
                wrong.append(f"evidence of another plan: {path}; {request.quarantine_remedy(plan, state)}")
    return wrong


def _rows(pool: Pool, measured: pd.DataFrame) -> dict[tuple[str, str, str], Json]:
    """Status and reason of cells, by target, state and name: of a cell's record, else of what skipped it."""
    rows: dict[tuple[str, str, str], Json] = {}
    for plan in pool.plans:
        for state in plan.states:
            for cell, skipped in plan.skipped(state).items():
                rows[plan.target.name, state, cell] = {"status": store.SKIPPED, "why": skipped["why"]}
    for row in measured[["target", "state", "cell", "status", "why"]].to_dict("records"):
        if row["status"] != store.SKIPPED:
            rows[row["target"], row["state"], row["cell"]] = row
    return rows


def write_report(pool: Pool, study_file: Path, sections: Iterable[Section] = (), table: Path | None = None) -> Path:
    """Make report and tables from the records, with more `sections`; return the page.

    `table`: records as Parquet, in place of ours. Raises DatasetError, StudyError.
    """
    frame, more = _taken(pool, table)
    if frame.empty:
        raise StudyError(f"{_nothing(pool, 'record')}; `{pool.commands.measure}` measures it")
    page = report.contents(pool.study, pool.target, frame, **more, config=study_file, more=sections)
    return report.build(page, frame, pool.results.report)


def write_figures(
    pool: Pool,
    columns: int,
    table: Path | None = None,
    to: Path | None = None,
    *,
    plain: bool = False,
    progress: Callable[[int, int], None] = lambda count, whole: None,
    sections: Iterable[Section] = (),
) -> Path:
    """Draw the report's figures as wide as so many columns of a paper, with their captions; return their folder.

    `plain`: without title and stamp. `progress`: is told how many of how many are drawn. `table`: records that somebody
    kept as Parquet, in place of ours. `sections`: figures that do not come from records. Raises StudyError where there
    is nothing to draw, or `to` is there and no folder that this made.
    """
    folder = to or pool.results.report / f"figures-{columns}-column"
    if to and to.exists() and not (to.is_dir() and _takes_figures(to)):
        raise StudyError(f"{to} is no folder that `fsage figures` made: name another, for what is in it goes")
    frame, more = _taken(pool, table)
    page = report.contents(pool.study, pool.target, frame, **more, more=sections)
    if not page.figures:
        raise StudyError(f"{_nothing(pool, 'valid record')}; `{pool.commands.measure}` measures it")
    whole = len(page.figures)
    progress(0, whole)
    report.draw_for_paper(page.figures, page.stamp, folder, columns, plain, lambda count: progress(count, whole))
    return folder


def _taken(pool: Pool, table: Path | None) -> tuple[pd.DataFrame, Json]:
    """The records, of a table where one is named, and what a report shows beside them."""
    more = _more(pool)
    if not table:
        return targets.pooled(dataset.load(pool.files()), pool.study, _on_several(pool)), more
    frame, more["comparison"] = _kept(pool.study, table)
    return frame, more


def _nothing(pool: Pool, what: str) -> str:
    return f"study {pool.study.name} on target {pool.target.name} has no {what} yet in {pool.results.root}"


def _takes_figures(folder: Path) -> bool:
    """Whether a folder is empty, or as `figures` leaves one: what is in it goes."""
    paths = list(folder.glob("[!.]*"))
    captions = folder / report.CAPTIONS
    return not paths or (captions in paths and all(path == captions or path.suffix in FIGURES for path in paths))


def _kept(study: Study, table: Path) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Records that were kept, of the study and of what it is compared with. Raises DatasetError, StudyError."""
    frame = dataset.read(table)
    beside = study.compare.study if study.compare else None
    studies = set(frame["study"].dropna())
    if studies - {study.name, beside} or (studies and study.name not in studies):
        raise StudyError(f"{table} holds records of {', '.join(sorted(studies))}, not of {study.name}")
    if beside is None:
        return frame, None
    return frame[frame["study"] != beside], frame[frame["study"] == beside]


def _on_several(pool: Pool) -> set[str]:
    """States that more than one target measures."""
    counts: Counter[str] = Counter()
    for plan in pool.plans:
        counts.update(list(plan.states))
    return {state for state, count in counts.items() if count > 1}


def _states(pool: Pool) -> list[str]:
    """All states that are measured, in planned order."""
    return [state.name for state in pool.study.expanded if any(state.name in plan.states for plan in pool.plans)]


def _more(pool: Pool) -> Json:
    """What a report shows beside the records."""
    several = _on_several(pool)
    cells = []
    traced = []
    for plan, state, cell in pool.cells():
        if cell.kind == "traced":
            traced.append(plan.results.record(state, cell.name))
        if state in several:
            cell = cell._replace(name=f"{cell.name} on {plan.target.name}")
        cells.append((state, cell))
    evidence: dict[str, Path] = {}
    for plan in sorted(pool.plans, key=lambda plan: plan.target.name):
        for name in plan.states:
            evidence.setdefault(name, plan.results.state(name))
    return {
        "plan_cells": cells,
        "states": {name: evidence[name] for name in _states(pool)},
        "claim": load_claim(pool.plans[0].results.last_claim),
        "comparison": _beside(pool),
        "traced": traced,
    }


def _beside(pool: Pool) -> pd.DataFrame | None:
    """Records of the study that this one is compared with."""
    if not pool.study.compare:
        return None
    return targets.pooled(dataset.load(map(Path, pool.compared_records())), pool.study)


def _is_of(plan: Plan, state: str, cell: Cell, record: JsonView) -> bool:
    """Whether a record is what the plan has for a cell."""
    return (
        record["params"] == cell.params
        and record["nominal"] == plan.states[state].nominal
        and request.is_planned(plan, state, record["layout"].get("steps"))
    )
