"""What people are told of a plan before it is measured: its size, its states, and what it can never tell."""

from __future__ import annotations

import time
from typing import NamedTuple

from fsage import workloads
from fsage.model import limits
from fsage.model.sparse import takes
from fsage.plan.plan import Plan
from fsage.plan.written import written
from fsage.statistics import reachable, smallest_p
from fsage.study.comparisons import Headline
from fsage.study.study import means
from fsage.text.sizes import counted, duration


class _Samples(NamedTuple):
    """What one side of a comparison will have: samples of `each` rate, and how many rates."""

    each: int
    rates: int


def notes(plan: Plan, samples: int | None = None) -> list[str]:
    """What should be known before it is measured: primary comparisons that can never become significant.

    `samples`: how many each side has, where that does not follow from the study; each target is one, perhaps.
    """
    rates, short = dict[tuple[object, ...], int](), []
    for pair in plan.study.headline:
        here, reference = (_samples(plan, pair, text) for text in (pair.state, pair.against))
        rates[pair.pair, str(pair.at), str(pair.measures)] = here.rates
        short.append((pair, samples or here.each, samples or reference.each))
    family, parts = sum(rates.values()), list(plan.parts())
    turns = (
        f"note {plan.study.name}: others load the device of target {plan.target.name} too, so its states are "
        "visited in turns, every second time in the reverse order (ABBA)"
    )
    once = [name for name, state in plan.states.items() if state.built_once]
    built_once = (
        f"note {plan.study.name}: one layout each of {', '.join(once)}, the same for all seeds, so each is built once"
    )
    image_gib = plan.target.spec["size_gib"]
    image = (
        f"note {plan.study.name}: target {plan.target.name} is not claimed yet. The claim writes its image once, "
        f"at most {image_gib:g} GiB, and measures the device"
    )
    below = (
        f"note {plan.study.name}: target {plan.target.name} is sparse and is not claimed yet. It takes "
        f"{takes(plan.target.spec).words()}"
    )
    return (
        [turns] * plan.study.turns
        + [built_once] * bool(once)
        + [image] * (plan.target.of_kind.own_stores and not plan.target.spec["sparse"] and not plan.claim)
        + [below] * (plan.target.spec["sparse"] and not plan.claim)
        + [
            f"note {plan.study.name}: {sentence}"
            for sentence in limits.forecast(
                plan.target.spec["limits"],
                sum(seconds for _, seconds, _ in parts),
                sum(written for *_, written in parts),
                time.time(),
            )
        ]
        + [
            f"note {plan.study.name}: '{pair.label}' compares {count} samples with {against}: its p is never below "
            f"{smallest_p(count, against):.2g}, {min(1, family * smallest_p(count, against)):.2g} among the "
            f"{family} primary comparisons, so it can never be significant; more iterations or structures would do"
            for pair, count, against in short
            if count and against and not reachable(count, against, family)
        ]
    )


def _samples(plan: Plan, pair: Headline, text: str) -> _Samples:
    """Of the states that `text` means, of what the pair compares at the largest transfer."""
    states = [name for name in plan.states if means(text, name)]
    if not states:  # narrowed away
        return _Samples(0, 0)
    planned = [cell for cell in plan.cells[states[0]] if cell.kind == "planned"]
    largest = max(cell.params.get("transfer_size") or 0 for cell in planned)
    params = [cell.params for cell in planned if (cell.params.get("transfer_size") or 0) == largest]
    taken = [
        rate for cell_params in params for rate in workloads.rates_of(cell_params) if pair.takes(cell_params, rate)
    ]
    alike = {str({**cell_params, "iteration": None, "place": None}) for cell_params in params}
    rates = len(taken) * len(alike) // len(params)
    return _Samples(len(states) if len(states) > 1 else len(params) // len(alike), rates)


def line(plan: Plan) -> str:
    """One line for people and programs: counts, what is still to be measured, time, bytes."""
    planned = sum(cell.kind == "planned" for _, cell in plan.all_cells())
    extra = sum(len(cells) for cells in plan.cells.values()) - planned
    todo = sum(len(cells) for cells in plan.missing.values())
    axes = plan.study.cells
    return (
        f"plan {plan.title}: {counted(planned, 'cell')}, {counted(len(plan.states), 'state')}, "
        f"{plan.populates} populates, {extra} diagnostic cells, "
        f"{todo:,} cells to measure, about {duration(plan.seconds())}, {written(plan)}"
        + (
            f", at most (the stop rule skips what is not needed after {axes.iterations} iterations)"
            if axes.stop
            else ""
        )
    )


def state_lines(plan: Plan) -> list[str]:
    """A line a state with something to measure, in the order in which they are visited."""
    of = "" if plan.part is None else f" on {plan.target.name}"
    return [
        f"  {name}{of}: {'' if name in plan.unreached else 'reached before, '}{len(cells)} cells, "
        f"about {duration(plan.state_seconds(name))}"
        for name, cells in plan.missing.items()
    ]
