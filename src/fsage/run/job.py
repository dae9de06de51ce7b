"""What a job of the DAG does: bring states about, measure their missing cells by playbooks, write their manifests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fsage.model.message import say
from fsage.plan import results
from fsage.plan.plan import Plan
from fsage.records import record, store
from fsage.run import request, runs, stopping
from fsage.run.play import PlayFailed, play
from fsage.run.progress import Progress
from fsage.study.cells import Cell
from fsage.text.sizes import counted

SHOWN = 5


def visit(plan: Plan, states: list[str], inventory: Path) -> None:
    """Build and measure state after state, and write the manifest of each.

    A state that fails does not keep the others from being tried. Raises PlayFailed with what each said.
    """
    failed: list[str] = []
    for state in states:
        try:
            measure(plan, state, inventory)
        except PlayFailed as error:
            failed.append(f"state {state}: {error}" if len(states) > 1 else str(error))
            if len(states) > 1:
                say(failed[-1])
    if failed:
        raise PlayFailed("\n".join(failed))


def measure(plan: Plan, state: str, inventory: Path) -> None:
    """Measure the cells of `state` that have no record, and write its manifest.

    What a killed run left between host and records is collected first and not measured again. Raises PlayFailed
    when cells are left; what was measured is in the store, and the next run measures the rest.
    """
    take(plan, state)
    progress = Progress(plan, state)
    failed = None
    refused: list[str] = []
    asked: list[tuple[str, int]] = []
    while not failed and (todo := stopping.due(plan, state)) and (attempts := attempted(plan, state, todo)) != asked:
        progress = Progress(plan, state)
        asked = attempts
        failed, these = visit_cells(plan, state, todo, inventory, progress)
        refused = these or refused
    runs.check()
    lacking = store.write_manifest(plan, state, {} if failed else stopping.unneeded(plan, state))
    if lacking:
        names = ", ".join(cell.name for cell in lacking[:SHOWN]) + (", …" if len(lacking) > SHOWN else "")
        why = failed or next(iter(refused), "no reason")
        raise PlayFailed(f"not measured: {counted(len(lacking), 'cell')} of state {state} ({names}): {why}")
    if asked:
        say(progress.done())


def attempted(plan: Plan, state: str, cells: Iterable[Cell]) -> list[tuple[str, int]]:
    """Names of cells, and how often each was measured: a disturbed one is measured again."""
    return [(cell.name, plan.results.attempts(state, cell.name)) for cell in cells]


def visit_cells(
    plan: Plan, state: str, cells: list[Cell], inventory: Path, progress: Progress
) -> tuple[PlayFailed | None, list[str]]:
    """Measure `cells` of a state into the store; what failed, if anything, and what came home and was not taken.

    A state that has no evidence yet is built first, by the same call.
    """
    failed = None
    first = ["tune_clients.yml"]
    plan.results.bundle(state).parent.mkdir(parents=True, exist_ok=True)
    if not plan.results.state(state).exists():
        one_s = min((plan.cell_seconds(state, cell) for cell in cells), default=0)
        stopping.check_window(plan, f"state {state} with a cell in it", plan.reach_seconds(state) + one_s)
        first = [*plan.states[state].playbooks, "evidence.yml"]
    file = plan.results.request(f"visit_{state}")
    results.write(file, request.make(plan, state, cells))
    try:
        play([*first, "measure.yml"], inventory, plan.results.log(f"visit_{state}"), progress, fsage_request=file)
    except PlayFailed as error:
        failed = error
    return failed, take(plan, state)


def take(plan: Plan, state: str) -> list[str]:
    """Put into the store what a play fetched, also one of a killed run; what was not taken of it, each said."""
    bundle = plan.results.bundle(state)
    refused = record.unpack(bundle, plan.results.root, plan.target.name).refused
    for sentence in refused[:SHOWN]:
        say(sentence)
    if len(refused) > SHOWN:
        say(f"and {len(refused) - SHOWN} more, all below {plan.results.refused('')}")
    return refused
