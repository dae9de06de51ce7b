"""How much each task moves in a study: the target's amount, or less, where a layout or the disk below has less room.

What is compared must have moved alike, so the amount is the same for all states of a study on a target. It is noted
when the first state is requested, and holds as long as the claim and the layouts do.
"""

from __future__ import annotations

import math
from typing import NamedTuple, cast

from fsage import workloads
from fsage.base import MIB
from fsage.model import plugins
from fsage.model.claim import REDUCED, Claim
from fsage.model.filesystems import takes
from fsage.model.structure import Step
from fsage.plan import Plan, results
from fsage.study import StudyError

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
