"""What people are told of a plan before it is measured: its size, what it writes, and what it can never tell.

Before the target was claimed, it is told from what is declared how much it writes at most.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple, cast

from fsage import workloads
from fsage.base import GIB, MIB, Json
from fsage.base.sizes import counted, duration, round_size
from fsage.model import limits
from fsage.model.claim import Claim
from fsage.model.declaration import tasks_of
from fsage.model.filesystems import takes
from fsage.plan import Plan
from fsage.plan.target import Target
from fsage.statistics import reachable, smallest_p
from fsage.study.cells import Cell
from fsage.study.comparisons import Headline, means

AMOUNT_MIB = 64
LONGEST_S = 1.25
"""An amount is a multiple of this, and a sample lasts at most about so long (fsage.host.claiming)."""


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
        if known_bytes >= GIB:
            size = f"{_digits(known_bytes / GIB)} GiB"
        else:
            size = round_size(known_bytes)
        if self.bound:
            size = f"at most {size}"
        if not self.unknown_cells:
            return f"{size} written"
        seconds = f"what the device writes in about {self.unknown_cells:,} s"
        if known_bytes:
            return f"{size} written, and {seconds}"
        return seconds


def written(plan: Plan) -> Written:
    """What the missing cells and their states write. Raises StudyError for what claim or limits rule out."""
    if plan.claim is not None:
        parts = sum(bytes_written for _, _, bytes_written in plan.parts())
        return Written(0, parts, 0, bound=False)
    capacity_bytes = plan.target.of_kind.most_bytes(plan.target.spec)
    if capacity_bytes is None:
        return Written(None, 0, 0, bound=True)
    states_bytes = 0
    if not plan.target.spec["sparse"]:
        for state in plan.missing:
            states_bytes += sum(step.writes_bytes(capacity_bytes) for step in plan.estimates.due[state])
    amount_mib = _amount_mib(plan.target)
    claim = {
        "capacity_bytes": capacity_bytes,
        "amount_mib": amount_mib or AMOUNT_MIB,
        "tasks": plan.target.spec["scale"]["tasks"],
        "passes": 1,
        "kind": plan.target.spec["kind"],
    }
    cells_bytes = 0
    unknown = 0
    for _, cell in plan.missing_cells():
        cell_bytes = _cell_bytes(cell, cast(Claim, claim))
        is_known = cell.params.get("amount_percent") and cell.params.get("passes")  # else the claim finds one of them
        if cell_bytes and amount_mib is None and not is_known:
            unknown += 1
        else:
            cells_bytes += cell_bytes
    return Written(states_bytes, cells_bytes, unknown, bound=True)


def _amount_mib(target: Target) -> int | None:
    """What a task moves at most: as declared, or what a device model allows in a sample; None: the claim finds it."""
    declared = target.spec["amount_mib"]
    model = target.spec["device_model"] or {}
    if declared is not None:
        return declared
    if not model.get("bytes_per_s"):
        return None
    a_task_mib = model["bytes_per_s"] * LONGEST_S / MIB / tasks_of(target.spec)
    return math.ceil(a_task_mib / AMOUNT_MIB) * AMOUNT_MIB


def _cell_bytes(cell: Cell, claim: Claim) -> int:
    """0 for a cell that this target refuses when it is claimed."""
    try:
        return workloads.bytes_of(workloads.params_of(cell.params), claim)[0]
    except ValueError:
        return 0


def _digits(gib: float) -> str:
    if gib >= 10:
        return f"{gib:,.0f}"
    return f"{gib:.1f}"


class _Samples(NamedTuple):
    """What one side of a comparison will have: samples of `each` rate, and how many rates."""

    each: int
    rates: int


def notes(plan: Plan, samples: int | None = None) -> list[str]:
    """What should be known before it is measured: primary comparisons that can never become significant.

    `samples`: how many each side has, where that does not follow from the study; each target is one, perhaps.
    """
    rates = dict[tuple[object, ...], int]()
    short = []
    for pair in plan.study.headline:
        in_state = _samples(plan, pair, pair.state)
        reference = _samples(plan, pair, pair.against)
        rates[pair.pair, str(pair.at), str(pair.measures)] = in_state.rates
        short.append((pair, samples or in_state.each, samples or reference.each))
    family = sum(rates.values())
    spec = plan.target.spec
    name = plan.target.name
    said = list[str]()
    if plan.study.turns:
        said.append(
            f"others load the device of target {name} too, so its states are visited in turns, every second time in "
            "the reverse order (ABBA)"
        )
    once = [state for state, of_plan in plan.states.items() if of_plan.built_once]
    if once:
        said.append(f"one layout each of {', '.join(once)}, the same for all seeds, so each is built once")
    if plan.claim or plan.target.of_kind.guests:
        pass
    elif spec["sparse"]:
        said.append(f"target {name} is sparse and is not claimed yet. It takes {takes(spec).words()}")
    elif plan.target.of_kind.own_stores:
        said.append(
            f"target {name} is not claimed yet. The claim makes an image of at most {spec['size_gib']:g} GiB and "
            "measures the device"
        )
    no_kernel = plan.why_no_kernel()
    if no_kernel:
        said.append(no_kernel)
    written_bytes = sum(part_bytes for _, _, part_bytes in plan.parts())
    said += limits.forecast(spec["limits"], plan.seconds(), written_bytes, time.time())
    for pair, count, against in short:
        if count and against and not reachable(count, against, family):
            p = smallest_p(count, against)
            said.append(
                f"'{pair.label}' compares {count} samples with {against}: its p is never below {p:.2g}, "
                f"{min(1, family * p):.2g} among the {family} primary comparisons, so it can never be significant; "
                "more iterations or structures would do"
            )
    return [f"note {plan.study.name}: {sentence}" for sentence in said]


def _samples(plan: Plan, pair: Headline, text: str) -> _Samples:
    """Samples of the states that `text` means, of what the pair compares at the largest transfer."""
    states = [name for name in plan.states if means(text, name)]
    if not states:  # narrowed away
        return _Samples(0, 0)
    planned = [cell for cell in plan.cells[states[0]] if cell.kind == "planned"]
    by_size: dict[int, list[Json]] = {}
    for cell in planned:
        by_size.setdefault(cell.params.get("transfer_size") or 0, []).append(cell.params)
    largest = by_size[max(by_size)]
    taken = 0
    combinations = set()
    for params in largest:
        taken += sum(pair.takes(params, rate) for rate in workloads.rates_of(params))
        combinations.add(str({**params, "iteration": None, "place": None}))
    rates = taken * len(combinations) // len(largest)
    if len(states) > 1:
        return _Samples(len(states), rates)
    return _Samples(len(largest) // len(combinations), rates)


def line(plan: Plan) -> str:
    """One line for people and programs: counts, what is still to be measured, time, bytes."""
    planned = sum(cell.kind == "planned" for _, cell in plan.all_cells())
    extra = sum(map(len, plan.cells.values())) - planned
    axes = plan.study.cells
    sentence = (
        f"plan {plan.title}: {counted(planned, 'cell')}, {counted(len(plan.states), 'state')}, "
        f"{counted(plan.populates, 'populate')}, {counted(extra, 'diagnostic cell')}, "
        f"{counted(plan.missing_count, 'cell')} to measure, about {duration(plan.seconds())}, {written(plan)}"
    )
    if axes.stop:
        sentence += f", at most (the stop rule skips what is not needed after {axes.iterations} iterations)"
    return sentence


def state_lines(plan: Plan) -> list[str]:
    """A line a state with something to measure, in the order in which they are visited."""
    lines = []
    for name, cells in plan.missing.items():
        title = name
        if plan.part is not None:
            title += f" on {plan.target.name}"
        work = f"{counted(len(cells), 'cell')}, about {duration(plan.state_seconds(name))}"
        if name not in plan.unreached:
            work = f"reached before, {work}"
        lines.append(f"  {title}: {work}")
    return lines
