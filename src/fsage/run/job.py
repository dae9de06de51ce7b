"""What a job of the DAG does: bring a state about, or measure the missing cells of one, by playbooks."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from fsage.model.message import lines
from fsage.plan import results
from fsage.plan.plan import Plan
from fsage.records import record
from fsage.run import request, runs, stopping, window
from fsage.run.play import PlayFailed, play
from fsage.run.progress import Progress
from fsage.study.cells import Cell

SHOWN = 5


def establish(plan: Plan, state: str, playbooks: list[str], inventory: Path, progress: Progress | None = None) -> None:
    """Bring the target into `state`; its evidence is noted by evidence.yml. Raises PlayFailed."""
    began = time.monotonic()
    first = min((plan.cell_seconds(state, cell) for cell in plan.missing.get(state, ())), default=0)
    window.check(f"state {state} with a cell in it", plan.reach_seconds(state) + first)
    file = _request(plan, state, f"establish_{state}", [])
    plan.results.state(state).parent.mkdir(parents=True, exist_ok=True)
    log = plan.results.log(f"establish_{state}")
    play(playbooks, inventory, log, progress or Progress(plan, state), fsage_request=file)
    _say(f"{plan.title}: state {state} reached in {time.monotonic() - began:.0f} s")


def measure(plan: Plan, state: str, playbooks: list[str], inventory: Path) -> None:
    """Measure the cells of `state` that have no record, and hand their records over.

    What a killed run left between host and records is taken up first and not measured again. Raises PlayFailed
    when cells are left; what was measured then waits in the store for the next run.
    """
    take_up(plan, state)
    progress, failed = Progress(plan, state), None
    refused: list[str] = []
    asked: list[Cell] = []
    while not failed and (todo := stopping.due(plan, state)) and todo != asked:
        progress, asked = Progress(plan, state), todo
        failed, these = visit_cells(plan, state, todo, playbooks, inventory, progress)
        refused = these or refused
    runs.check()
    if not failed:
        stopping.skip(plan, state)
    if lacking := record.hand_over(plan, state):
        names = ", ".join(cell.name for cell in lacking[:SHOWN]) + (", …" if len(lacking) > SHOWN else "")
        why = failed or next(iter(refused), "no reason")
        raise PlayFailed(f"{len(lacking)} cells of state {state} were not measured ({names}): {why}")
    _say(progress.done())


def take_up(plan: Plan, state: str) -> None:
    """Take what a killed run left of a state between host and records."""
    _take(plan, plan.results.bundle(state))
    record.forget_handed_over(plan, state)


def visit_cells(
    plan: Plan, state: str, cells: list[Cell], playbooks: list[str], inventory: Path, progress: Progress
) -> tuple[PlayFailed | None, list[str]]:
    """Measure `cells` of a state into the store; what failed, if anything, and what came home and was not taken."""
    bundle, failed = plan.results.bundle(state), None
    bundle.parent.mkdir(parents=True, exist_ok=True)
    file = _request(plan, state, f"measure_{state}", cells)
    try:
        play(playbooks, inventory, plan.results.log(f"measure_{state}"), progress, fsage_request=file)
    except PlayFailed as error:
        failed = error
    return failed, _take(plan, bundle)


def visit(plan: Plan, states: list[str], inventory: Path) -> None:
    """Bring about and measure state after state; a state's records are handed over as soon as it is measured.

    A state that fails does not keep the others from being tried. Raises PlayFailed with what each said.
    """
    failed: list[str] = []
    for state in states:
        try:
            if not plan.results.state(state).exists():
                establish(plan, state, [*plan.states[state].playbooks, "evidence.yml"], inventory)
            measure(plan, state, ["tune_clients.yml", "measure.yml"], inventory)
        except PlayFailed as error:
            failed.append(f"state {state}: {error}")
            _say(failed[-1])
    if failed:
        raise PlayFailed("\n".join(failed))


def _request(plan: Plan, state: str, name: str, cells: list[Any]) -> Path:
    path = plan.results.request(name)
    results.write(path, request.make(plan, state, cells))
    return path


def _take(plan: Plan, bundle: Path) -> list[str]:
    """Unpack what a play fetched; what was not taken of it, each said."""
    refused = record.unpack(bundle, plan.results.root, plan.target.name).refused
    for sentence in refused[:SHOWN]:
        _say(sentence)
    if len(refused) > SHOWN:
        _say(f"and {len(refused) - SHOWN} more, all below {plan.results.refused('')}")
    return refused


def _say(text: str) -> None:
    print(lines(f"fsage: {text}"), file=sys.stderr)
