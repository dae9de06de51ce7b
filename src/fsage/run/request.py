"""The request: all that a playbook is told about a state and its cells, as one JSON file.

What steps need beside what they say, such as a layout that is to be copied, it has by its digest.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any, Literal

from fsage import workloads
from fsage.base import typed
from fsage.base.message import Unacceptable
from fsage.model import structure
from fsage.model.claim import Claim
from fsage.model.request import Cell as Asked
from fsage.model.request import Phase, Request
from fsage.model.structure import Step
from fsage.plan import Plan, Way, results
from fsage.plan.amount import fitting_amount
from fsage.records import messages
from fsage.run import runs
from fsage.study import StudyError
from fsage.study.cells import Cell

SCHEMA: Literal[1] = 1
DEFAULTS = "defaults"
"""The mount option that changes nothing (mount(8))."""


def make(plan: Plan, state_name: str, cells: Collection[Cell] = ()) -> dict[str, object]:
    """The request for a state with `cells` to measure in it (none: only build the state).

    The request is noted (fsage.records.messages): only its answers are accepted. Raises StudyError when the state is
    not in the study, was first reached by other steps, or a cell cannot be run on this target.
    """
    way = plan.way_to(state_name, cells)
    run = runs.current()
    claim = fitting_amount(plan, plan.claim) if plan.claim else None
    request: Request = {
        "schema": SCHEMA,
        "study": plan.study.name,
        "state": state_name,
        "nominal": plan.states[state_name].nominal,
        "run": run.holder["run"] if run.holder else None,
        "holder": run.holder,
        "slurm_job": os.environ.get("SLURM_JOB_ID"),  # of which what srun launches is a step
        "claim": plan.claim["id"] if plan.claim else None,
        "until": run.until.timestamp() if run.until else None,
        "tuning": plan.study.tuning,
        "reuse": plan.study.states.reuse,
        "steps": way.steps,
        "reach_s": way.seconds,
        "first_instance": _first_instance(plan, state_name),
        "cells": [_cell(plan, claim, state_name, way, cell) for cell in cells],
        "bundle": str(plan.results.bundle(state_name).absolute()),
        "evidence": str(plan.results.state(state_name).absolute()),
    }
    if way.inputs:
        request["inputs"] = way.inputs
    if claim and claim != plan.claim:
        request["amount_mib"] = claim["amount_mib"]
        request["amount_source"] = claim["amount_source"]
    made: dict[str, object] = typed.to_json(request)
    messages.note_request(plan.results, made)
    return made


def is_planned(plan: Plan, state: str, steps: object) -> bool:
    """Whether steps on record are those by which the plan reaches a state; layouts of replicas go by their names."""
    try:
        return _by_name(structure.read_all(steps)) == _by_name(plan.steps(state))
    except Unacceptable:
        return False


def quarantine_remedy(plan: Plan, state: str) -> str:
    """What to do about what is on record of a state that is another one now."""
    command = plan.commands.fsage("remeasure", plan.study.name, "--state", state)
    return f"`{command}` sets its evidence and records aside"


def _by_name(steps: list[Step]) -> list[Step]:
    return [step.with_input("") if step.needs_input else step for step in steps]


def _first_instance(plan: Plan, state: str) -> str | None:
    """The layout instance in which a state was first reached, to tell a state that was rebuilt since."""
    path = plan.results.state(state)
    evidence = results.read_block(path)
    if evidence is None:
        return None
    if not is_planned(plan, state, evidence.get("steps")):
        raise StudyError(
            f"study {plan.study.name}: state {state} is another one since the study or the target's scale was edited, "
            f"and {path} is the evidence of what it was; {quarantine_remedy(plan, state)}"
        )
    return str(evidence["token"]["instance"])


def _cell(plan: Plan, claim: Claim | None, state: str, way: Way, cell: Cell) -> Asked:
    if claim is None:
        raise StudyError(
            f"target {plan.target.name} is not claimed: {plan.results.claim} is missing; "
            f"`{plan.commands.fsage('claim')}` claims it"
        )
    phases: list[Phase] = []
    unsupported = None
    makes_bytes = 0
    writes_bytes = 0
    workload = workloads.load(cell.params["workload"])
    params = workloads.params_of(cell.params)
    try:
        phases = mounted(workload.commands(params, claim, way.steps), params)
        writes_bytes, makes_bytes = workloads.bytes_of(params, claim)
    except workloads.Unsupported as why:
        unsupported = str(why)
    except ValueError as error:
        raise StudyError(f"study {plan.study.name}, state {state}, cell {cell.name}: {error}") from error
    return {
        "name": cell.name,
        "kind": cell.kind,
        "order": cell.order,
        "attempt": plan.results.attempts(state, cell.name) + 1,
        "params": cell.params,
        "estimate_s": way.cells_s[cell.name],
        "makes_bytes": makes_bytes,
        "writes_bytes": writes_bytes,
        "phases": phases,
        "unsupported": unsupported,
        "trace": cell.kind == "traced",
    }


def mounted(phases: list[Phase], params: Any) -> list[Phase]:
    """The phases with the mount options that the cell names."""
    if params.mount in (None, DEFAULTS):
        return phases
    with_options: list[Phase] = []
    for phase in phases:
        options = filter(None, (phase.get("mount_options"), params.mount))
        with_options.append({**phase, "mount_options": ",".join(options)})
    return with_options
