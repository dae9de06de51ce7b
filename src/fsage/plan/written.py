"""How much a plan still writes; before the target was claimed, at most how much, from what is declared."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

from fsage import workloads
from fsage.model.claim import Claim
from fsage.model.declaration import MIB, tasks_of
from fsage.plan.plan import Plan
from fsage.plan.target import Target
from fsage.study.cells import Cell

GIB = 1 << 30
AMOUNT_MIB, LONGEST_S = 64, 1.25
"""An amount is a multiple of this, and a sample lasts at most about so long (fsage.host.claiming.calibrate)."""


class Written(NamedTuple):
    """Bytes that building states and measuring cells write; None where only a claim finds that out.

    `bound`: what is known is the most that it can be. `unknown_cells`: of how many cells the bytes are not known.
    """

    states_bytes: int | None
    cells_bytes: int
    unknown_cells: int
    bound: bool

    def __str__(self) -> str:
        """'7.5 GiB written', 'at most 21 GiB written', or of what that is not known."""
        if self.states_bytes is None:
            return "unknown GiB written (no capacity is declared, so the claim finds it)"
        known_bytes = self.states_bytes + self.cells_bytes
        gib = f"{'at most ' if self.bound else ''}{_digits(known_bytes / GIB)} GiB"
        if not self.unknown_cells:
            return f"{gib} written"
        cells = f"{self.unknown_cells} times what the device writes in about a second"
        return f"{gib} and {cells} written" if known_bytes else f"{cells} written"


def written(plan: Plan) -> Written:
    """What the missing cells and their states write. Raises StudyError for what claim or limits rule out."""
    if plan.claim is not None:
        parts = sum(bytes_written for _, _, bytes_written in plan.parts())
        return Written(0, parts, 0, bound=False)
    capacity_bytes = declared_bytes(plan.target)
    if capacity_bytes is None:
        return Written(None, 0, 0, bound=True)
    states_bytes = 0 if plan.target.spec["sparse"] else _states_bytes(plan, capacity_bytes)
    amount_mib = _amount_mib(plan.target)
    claim = {"capacity_bytes": capacity_bytes, "amount_mib": amount_mib or AMOUNT_MIB, **_tasks(plan.target)}
    cells_bytes = unknown = 0
    for cells in plan.missing.values():
        for cell in cells:
            cell_bytes = _cell_bytes(cell, cast(Claim, claim))
            if cell_bytes and amount_mib is None and not cell.params.get("amount_percent"):
                unknown += 1
            else:
                cells_bytes += cell_bytes
    return Written(states_bytes, cells_bytes, unknown, bound=True)


def declared_bytes(target: Target) -> int | None:
    """What the target may hold as declared; None where that is found when it is claimed."""
    spec, lustre = target.spec, target.spec["lustre"]
    if target.of_kind.own_stores:
        return int(spec["size_gib"] * spec["stores"] * GIB)
    gib = lustre["capacity_gib"] if lustre else spec["budget_gib"]
    return None if gib in ("all", None) else int(float(gib) * GIB)


def _states_bytes(plan: Plan, capacity_bytes: int) -> int:
    seed, scale = plan.study.states.seed or 0, plan.target.file_scale
    steps = [step.on_target(scale, seed) for state in plan.missing for step in plan.due(state)]
    return sum(step.writes_bytes(capacity_bytes) for step in steps)


def _amount_mib(target: Target) -> int | None:
    """What a task moves at most: as declared, or what a device model allows in a sample; None: the claim finds it."""
    declared, model = target.spec["amount_mib"], target.spec["device_model"] or {}
    if declared is not None:
        return declared
    if not model.get("bytes_per_s"):
        return None
    a_task_mib = model["bytes_per_s"] * LONGEST_S / MIB / tasks_of(target.spec)
    return math.ceil(a_task_mib / AMOUNT_MIB) * AMOUNT_MIB


def _tasks(target: Target) -> dict[str, object]:
    return {"tasks": target.spec["scale"]["tasks"], "passes": 1, "kind": target.spec["kind"]}


def _cell_bytes(cell: Cell, claim: Claim) -> int:
    """0 for a cell that this target refuses when it is claimed."""
    try:
        return workloads.bytes_of(workloads.params_of(cell.params), claim)[0]
    except ValueError:
        return 0


def _digits(gib: float) -> str:
    return f"{gib:,.0f}" if gib >= 10 else f"{gib:.1f}"
