"""The request: all that a playbook is told about a state and its cells, as one JSON file.

What steps need beside what they say, such as a layout that is to be copied, it has by its digest.

How much each task moves in a study is the target's amount, or less, where a layout or the disk below has less room.
What is compared must have moved alike, so the amount is the same for all states of a study on a target. It is noted
when the first state is requested, and holds as long as the claim and the layouts do.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, cast

from fsage import workloads
from fsage.base import MIB, typed
from fsage.base.message import Unacceptable
from fsage.model import plugins, structure
from fsage.model.claim import REDUCED, Claim
from fsage.model.filesystems import takes
from fsage.model.request import Cell as Asked
from fsage.model.request import Phase, Request
from fsage.model.structure import Step
from fsage.plan import results
from fsage.plan.plan import Plan
from fsage.records import messages
from fsage.run import runs
from fsage.study.cells import Cell
from fsage.study.study import StudyError

STEP_MIB = 64
"""Amounts are multiples of the largest transfer of the studies, as the calibration's are."""
LEAST_S = 0.25
"""A sample lasts at least so long at the calibrated rate: a shorter one rides the burst that a device allows."""
MAPS_SHARE = 1 / 64
"""Share of what is free that stays for the maps of files in many pieces."""


class Room(NamedTuple):
    """Where files lie, such as 'state e.copied', and the bytes that they can take there."""

    place: str
    left_bytes: int


def fitting_amount(plan: Plan, claim: Claim) -> Claim:
    """The claim with the amount that all states of the study have room for. Raises StudyError: it is too little."""
    layouts = _layouts(plan)
    if not layouts and not plan.target.spec["sparse"]:
        return claim
    about = {"claim": claim["id"], "layouts": sorted(map(str, layouts))}
    noted = results.read(plan.results.amount) or {}
    if any(noted.get(key) != value for key, value in about.items()):
        noted = {**about, "reduced": _reduced(plan, claim, layouts)}
        results.write(plan.results.amount, noted)
    fitted: object = {**claim, **noted["reduced"]}
    return cast(Claim, fitted)


def _reduced(plan: Plan, claim: Claim, layouts: dict[Step, str]) -> dict[str, int | str]:
    """`amount_mib` and `amount_source` in place of the claim's, where there is less room; else nothing."""
    if not _makes_bytes(plan, claim):
        return {}
    kept_bytes = 0
    for store in claim.get("statfs_empty", ()):
        kept_bytes += store["f_frsize"] * (store["f_bfree"] - store["f_bavail"])
    rooms = []
    for step, state in layouts.items():
        free_bytes = plugins.beside(step, "inputs").free_bytes(plan, step)
        rooms.append(Room(f"state {state}", int(free_bytes * (1 - MAPS_SHARE)) - kept_bytes))
    if plan.target.spec["sparse"]:
        rooms.append(Room("the disk below the sparse image", takes(plan.target.spec).written_bytes))
    fullest = min(rooms, key=lambda room: room.left_bytes)
    usual_mib = claim["amount_mib"]
    amount_mib = usual_mib
    tasks = max(1, len(claim.get("hosts", ()))) * claim.get("tasks", 1)
    rate_mib_s = max(claim["calibration"]["write_mib_s"], claim["calibration"]["read_mib_s"])
    a_task_mib = LEAST_S * rate_mib_s / tasks / claim.get("passes", 1)
    least_mib = min(usual_mib, max(1, math.ceil(a_task_mib / STEP_MIB)) * STEP_MIB)
    needed = _makes_bytes(plan, claim)
    while needed > fullest.left_bytes and amount_mib > least_mib:
        amount_mib = max(least_mib, (amount_mib - 1) // STEP_MIB * STEP_MIB)
        needed = _makes_bytes(plan, {**claim, "amount_mib": amount_mib})
    if needed > fullest.left_bytes:
        raise StudyError(
            f"study {plan.study.name} on target {plan.target.name}: files of a cell take {needed / MIB:.0f} MiB at "
            f"least, and {fullest.place} has room for {fullest.left_bytes / MIB:.0f} MiB. A sample of less than "
            f"{least_mib} MiB for each task lasts less than {LEAST_S:g} s and tells nothing. Measure on a larger "
            "target (size_gib); nothing was touched"
        )
    if amount_mib == usual_mib:
        return {}
    return {
        "amount_mib": amount_mib,
        "amount_source": f"{REDUCED} {usual_mib} MiB in all states: {fullest.place} has room for "
        f"{fullest.left_bytes / MIB:.0f} MiB",
    }


def _layouts(plan: Plan) -> dict[Step, str]:
    """The layouts that states copy, each with one of these: how much is free there is known before it is built."""
    layouts: dict[Step, str] = {}
    for state in plan.study.expanded:
        for step in state.steps(plan.target.file_scale, plan.seed):
            if step.needs_input:
                inputs = plugins.beside(step, "inputs")
                if hasattr(inputs, "free_bytes"):
                    layouts[inputs.layout_of(step)] = state.name
    return layouts


def _makes_bytes(plan: Plan, claim: Claim) -> int:
    """The most bytes that the files of a cell of these states hold."""
    every = {str({**cell.params, "iteration": 0}): cell.params for _, cell in plan.all_cells()}.values()
    return max((workloads.bytes_of(workloads.params_of(params), claim)[1] for params in every), default=0)


SCHEMA: Literal[1] = 1
DEFAULTS = "defaults"
"""The mount option that changes nothing (mount(8))."""


def make(plan: Plan, state_name: str, cells: Iterable[Cell] = ()) -> dict[str, object]:
    """The request for a state with `cells` to measure in it (none: only build the state).

    The request is noted (fsage.records.messages): only its answers are accepted. Raises StudyError when the state is
    not in the study, was first reached by other steps, or a cell cannot be run on this target.
    """
    plan.check_state(state_name)
    plan.check()
    state = plan.states[state_name]
    run = runs.current()
    claim = fitting_amount(plan, plan.claim) if plan.claim else None
    steps, needed = plan.with_inputs(plan.steps(state_name))
    request: Request = {
        "schema": SCHEMA,
        "study": plan.study.name,
        "state": state_name,
        "nominal": state.nominal,
        "run": run.holder["run"] if run.holder else None,
        "holder": run.holder,
        "slurm_job": os.environ.get("SLURM_JOB_ID"),  # of which what srun launches is a step
        "claim": plan.claim["id"] if plan.claim else None,
        "until": run.until.timestamp() if run.until else None,
        "tuning": plan.study.tuning,
        "reuse": plan.study.states.reuse,
        "steps": steps,
        "reach_s": plan.reach_seconds(state_name),
        "first_instance": _first_instance(plan, state_name),
        "cells": [_cell(plan, claim, state_name, steps, cell) for cell in cells],
        "bundle": str(plan.results.bundle(state_name).absolute()),
        "evidence": str(plan.results.state(state_name).absolute()),
    }
    if needed:
        request["inputs"] = needed
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


def _cell(plan: Plan, claim: Claim | None, state: str, steps: list[Step], cell: Cell) -> Asked:
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
        phases = mounted(workload.commands(params, claim, steps), params)
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
        "estimate_s": plan.cell_seconds(state, cell),
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
