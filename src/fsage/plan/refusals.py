"""What a target rules out whatever its state is, refused before anything is built. Each raises ValueError."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from fsage.model import limits
from fsage.model.claim import Claim
from fsage.model.request import Phase
from fsage.model.structure import Step
from fsage.plan.target import GUESTS, KERNEL, Target
from fsage.study.cells import Cell


def of_kind(target: Target, usual: str | None, workload: ModuleType, cell: Cell) -> None:
    """Refuse what no cell on this kind of target could tell anything of. `usual`: the target that the study names."""
    remedy = f"take a target of kind {GUESTS}, such as --target {usual or KERNEL}"
    name = cell.params["workload"]
    kernel = cell.params.get("kernel")
    if not target.of_kind.guests and getattr(workload, "IN_GUESTS", False):
        raise ValueError(f"workload {name} needs a guest's own disk: {remedy}")
    if not target.of_kind.guests and kernel:
        raise ValueError(f"kernel {kernel}: cells of this target have its host's own kernel: {remedy}")
    why = target.of_kind.tells_nothing(target.spec, name)
    if why:
        raise ValueError(why)


def of_room(target: Target, claim: Claim | None, steps: Sequence[Step]) -> None:
    """Refuse a state that the target has no room for, even when it is empty.

    Before the claim, the declaration says how large the target is at most.
    """
    if claim:
        capacity_bytes = claim.get("capacity_bytes")
    else:
        capacity_bytes = target.of_kind.most_bytes(target.spec)
    if capacity_bytes is None:
        return
    for step in steps:
        why = step.unavailable_because(capacity_bytes)
        if why:
            raise ValueError(why)


def of_rates(target: Target, phases: Sequence[Phase]) -> None:
    """Refuse a workload that cannot be kept to the site's rates."""
    for phase in phases:
        why = limits.why_not_kept(target.spec["limits"], phase)
        if why:
            raise ValueError(f"{why}; nothing was touched")
