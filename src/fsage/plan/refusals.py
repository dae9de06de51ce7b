"""What a target rules out whatever its state is, refused before anything is built. Each raises ValueError."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

from fsage.base import MIB
from fsage.model import limits
from fsage.model.claim import Claim
from fsage.model.request import Phase
from fsage.model.structure import Step, achieved
from fsage.plan.target import GUESTS, KERNEL, Target, is_here
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


def of_kernels(target: Target, inventories: Path, cells: Sequence[Cell]) -> None:
    """Refuse cells that name kernels which their machine has not, where that is this one."""
    names = {cell.params["kernel"] for cell in cells if cell.params.get("kernel")}
    if names and is_here(inventories / target.name):
        why = target.of_kind.why_no_kernel(target.spec, names)
        if why:
            raise ValueError(f"{why}; nothing was touched")


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


def of_declared(target: Target, inventories: Path, clients: int | None, workload: ModuleType, params: object) -> None:
    """Refuse what the declared numbers rule out before there is a claim. `clients`: how many are named, where known."""
    amount_mib = target.spec["amount_mib"]
    check_amount = getattr(workload, "check_amount", None)
    if amount_mib and check_amount:
        check_amount(params, amount_mib)
    nodes = getattr(params, "nodes", None)
    if nodes and clients and nodes > clients:
        raise ValueError(
            f"nodes: {nodes} are more than the group clients of {inventories / target.name}/hosts.yml has, {clients}. "
            "Leave these cells out (--config 'only={nodes: N}'), or name more"
        )


def of_places(claim: Claim, state: str, steps: tuple[Step, ...], place: int, makes_bytes: int) -> None:
    """Refuse a cell where the files of all places, `makes_bytes`, do not fit beside those of the state."""
    if place == 1 or "capacity_bytes" not in claim:
        return
    capacity_bytes = claim["capacity_bytes"]
    if makes_bytes <= _least_left_bytes(steps, capacity_bytes):
        return
    shares = achieved(steps, capacity_bytes)
    left_bytes = capacity_bytes - sum(share["bytes"] * (1 - share["deleted_share_bytes"]) for share in shares)
    if makes_bytes > left_bytes:
        raise ValueError(
            f"places: {place} files take {makes_bytes / MIB:.0f} MiB, and state {state} leaves "
            f"{left_bytes / MIB:.0f} MiB; give fewer places, a smaller amount_mib or a larger target (size_gib)"
        )


@cache
def _least_left_bytes(steps: tuple[Step, ...], capacity_bytes: int) -> int:
    """What a state's files leave as if nothing were deleted: which ones are, is drawn file by file."""
    made = achieved([step for step in steps if not step.DELETES], capacity_bytes)
    return capacity_bytes - sum(share["bytes"] for share in made)
