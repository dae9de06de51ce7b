"""Observations of cells that nobody measured: skipped, with the rates that the measured ones predict."""

from __future__ import annotations

import math
import uuid
from datetime import datetime

from fsage.adaptive.surface import Belief
from fsage.model import typed
from fsage.model.typed import JsonView
from fsage.plan import results
from fsage.plan.plan import Plan
from fsage.records import record
from fsage.run import request
from fsage.run.adaptive_run import AdaptiveRun
from fsage.study.cells import Cell


def keep(run: AdaptiveRun, beliefs: list[Belief], why: str) -> None:
    """Note an observation of each cell that is left: not measured, `why`, and what it is predicted to be."""
    plan = run.plan
    observations = (_stored(plan, group.state, cell) for group in run.groups for cell in group.cells)
    like = next(observation for observation in observations if observation and observation["status"] == "done")
    for number, (group, left) in enumerate(zip(run.groups, run.cells_left(), strict=True)):
        predicted = _predicted(run, beliefs, number)
        for cell in left:
            record.keep(
                {**_of_state(plan, group.state, like), **_of_cell(cell), "why": why, "predicted": predicted},
                plan.results.root,
                plan.target.name,
            )
    for state in plan.states:
        for cell in request.to_measure(plan, state):  # beside planned ones, of states that were not visited
            alone = "not measured: nothing else was measured in this state"
            record.keep(
                {**_of_state(plan, state, like), **_of_cell(cell), "why": alone}, plan.results.root, plan.target.name
            )


def _predicted(run: AdaptiveRun, beliefs: list[Belief], number: int) -> dict[str, float]:
    """Rates of a group with their intervals, as columns of the table."""
    rates: dict[str, float] = {}
    for rate, belief in zip(run.rates, beliefs, strict=True):
        middle, wide = float(belief.mean[number]), math.log1p(float(belief.half_width[number]))
        for name, value in (("", middle), ("_low", middle - wide), ("_high", middle + wide)):
            rates[f"{rate}_predicted{name}"] = math.exp(value)
    return rates


def _stored(plan: Plan, state: str, cell: Cell) -> dict[str, object] | None:
    observation = results.read(plan.results.pending(state, cell.name))
    if observation is None and (done := results.read(plan.results.record(state, cell.name))):
        observation = results.read(plan.results.root / done["raw"]["path"])
    return observation


def _of_state(plan: Plan, state: str, like: JsonView) -> dict[str, object]:
    """An observation of a state that is said to be as planned: nobody looked."""
    steps = plan.states[state].steps(plan.target.scale.file_size, request.seed_of(plan))
    capacity = like["layout"]["capacity_bytes"]
    used = int(capacity * plan.states[state].nominal["fullness_percent"] / 100)
    layout = {
        "capacity_bytes": capacity,
        "used_bytes": used,
        "free_bytes": capacity - used,
        "generations": [],
        "steps": typed.to_json(steps),
        "notes": {},
        "state_known": False,
    }
    return {**like, "state": state, "nominal": plan.states[state].nominal, "layout": layout}


def _of_cell(cell: Cell) -> dict[str, object]:
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    return {
        "id": str(uuid.uuid4()),
        "cell": cell.name,
        "kind": cell.kind,
        "order": cell.order,
        "params": cell.params,
        "attempt": 1,
        "status": "skipped",
        "began": now,
        "ended": now,
        "phases": [],
        "check": {},
    }
