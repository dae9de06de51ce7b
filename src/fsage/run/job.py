"""What a job of the DAG does: bring states about, measure their missing cells by playbooks, write their manifests.

Which cells a visit measures follows from what is recorded, and from the stop rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from fsage import recipes, records, workloads
from fsage.base.message import say
from fsage.base.sizes import counted
from fsage.plan import Plan, results
from fsage.records import store
from fsage.records.store import Reason, metrics_of
from fsage.run import request, runs
from fsage.run.play import PlayFailed, play
from fsage.run.progress import Progress
from fsage.statistics import median_interval
from fsage.study.cells import Cell

SHOWN = 5


def visit(plan: Plan, states: list[str]) -> None:
    """Build and measure state after state, and write the manifest of each.

    A state that fails does not keep the others from being tried. Raises PlayFailed with what each said.
    """
    failed: list[str] = []
    for state in states:
        try:
            measure(plan, state)
        except PlayFailed as error:
            if len(states) == 1:
                raise
            failed.append(f"state {state}: {error}")
            say(failed[-1])
    if failed:
        raise PlayFailed("\n".join(failed))


def measure(plan: Plan, state: str) -> None:
    """Measure the cells of `state` that have no record, and write its manifest.

    What a killed run left between host and records is collected first and not measured again. Raises PlayFailed
    when cells are left; what was measured is in the store, and the next run measures the rest.
    """
    take(plan, state)
    store.strike(plan, state, {cell.name for cell in plan.to_measure(state)})  # what a stop rule said of other records
    progress = None
    failed = None
    why = "no reason"
    requested: list[tuple[str, int]] = []
    while not failed:
        todo = due(plan, state)
        attempts = attempted(plan, state, todo)
        if not todo or attempts == requested:  # the same again: what is left was not taken
            break
        requested = attempts
        progress = Progress(plan, state)
        failed, refused = visit_cells(plan, state, todo, progress)
        if refused:
            why = refused[0]
    runs.check()
    lacking = store.write_manifest(plan, state, {} if failed else unneeded(plan, state))
    if lacking:
        names = [cell.name for cell in lacking[:SHOWN]]
        if len(lacking) > SHOWN:
            names.append("…")
        cells = f"{counted(len(lacking), 'cell')} of state {state} ({', '.join(names)})"
        raise PlayFailed(f"not measured: {cells}: {failed or why}")
    if progress:
        say(progress.done())


def attempted(plan: Plan, state: str, cells: Iterable[Cell]) -> list[tuple[str, int]]:
    """Names of cells, and how often each was measured: a disturbed one is measured again."""
    return [(cell.name, plan.results.attempts(state, cell.name)) for cell in cells]


def visit_cells(plan: Plan, state: str, cells: list[Cell], progress: Progress) -> tuple[PlayFailed | None, list[str]]:
    """Measure `cells` of a state into the store; what failed, if anything, and what came home and was not taken.

    A state that has no evidence yet is built first, by the same call. Where it is an image, the scrub makes it.
    """
    failed = None
    first = ["tune_clients.yml"]
    plan.results.bundle(state).parent.mkdir(parents=True, exist_ok=True)
    if not plan.results.state(state).exists():
        cell_s = min((progress.own.cells_s[cell.name] for cell in cells), default=0.0)
        runs.check_window(plan, f"state {state} with a cell in it", progress.own.reach_s + cell_s)
        steps = recipes.BEFORE_STEPS if plan.target.of_kind.guests else plan.states[state].playbooks
        first = [*steps, "evidence.yml"]
    file = plan.results.request(f"visit_{state}")
    results.write(file, request.make(plan, state, cells))
    try:
        play([*first, "measure.yml"], plan.inventory, plan.results.log(f"visit_{state}"), progress, fsage_request=file)
    except PlayFailed as error:
        failed = error
    return failed, take(plan, state)


def take(plan: Plan, state: str) -> list[str]:
    """Put into the store what a play fetched, also one of a killed run; what was not taken of it, each said."""
    bundle = plan.results.bundle(state)
    refused = records.unpack(bundle, plan.results.root, plan.target.name).refused
    for sentence in refused[:SHOWN]:
        say(sentence)
    if len(refused) > SHOWN:
        say(f"and {len(refused) - SHOWN} more, all below {plan.results.refused('')}")
    return refused


def due(plan: Plan, state: str) -> list[Cell]:
    """Cells to measure in the next visit, in planned order; none when all is measured or may be skipped.

    Without a stop rule: all. With one: first the least number of iterations; then, visit by visit, one iteration
    more of each group whose interval is not narrow enough; in the end what stands behind the planned cells.
    """
    todo = plan.to_measure(state)
    axes = plan.study.cells
    if axes.stop is None:
        return todo
    last = max(cell.order for cell in plan.cells[state] if cell.kind == "planned")
    first = []
    for cell in todo:
        if cell.order < last and (cell.kind != "planned" or cell.params["iteration"] <= axes.iterations):
            first.append(cell)
    if first:
        return first
    more = [cells[0] for group, cells in groups(todo).items() if not _narrow(plan, state, group)]
    return more or [cell for cell in todo if cell.kind != "planned"]


def unneeded(plan: Plan, state: str) -> dict[str, Reason]:
    """The planned cells of a state that the stop rule leaves out, each with the reason."""
    stop = plan.study.cells.stop
    if stop is None:
        return {}
    reasons: dict[str, Reason] = {}
    planned = groups(plan.cells[state])
    for group, cells in groups(plan.to_measure(state)).items():
        if _narrow(plan, state, group):
            count = sum(plan.results.record(state, cell.name).exists() for cell in planned[group])
            reason = Reason(f"{stop.reason} after {count} iterations")
            for cell in cells:
                reasons[cell.name] = reason
    return reasons


def groups(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Planned cells by all that they have in common, in order of their iterations."""
    by_group: dict[str, list[Cell]] = {}
    planned = [cell for cell in cells if cell.kind == "planned"]
    for cell in sorted(planned, key=lambda cell: cell.params["iteration"]):
        by_group.setdefault(cell.group, []).append(cell)
    return by_group


def _narrow(plan: Plan, state: str, group: str) -> bool:
    """Whether every rate of a group has an interval that is narrow enough."""
    stop = plan.study.cells.stop
    if stop is None:
        return False
    cells = groups(plan.cells[state])[group]
    metrics = [metrics_of(plan, state, cell) or {} for cell in cells]
    for rate in workloads.rates_of(cells[0].params):
        interval = median_interval([of_cell[rate] for of_cell in metrics if rate in of_cell])
        if interval is None:
            return False
        middle = (interval.high + interval.low) / 2
        if (interval.high - interval.low) / middle * 100 >= stop.interval_percent:
            return False
    return True
