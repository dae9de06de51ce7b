"""A study within a budget: the primary comparisons first, then visit after visit to where most is learned.

What is not measured in the end has a record too: skipped, with the rates that the measured cells predict.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from fsage.adaptive.design import Choice, explore, unknown
from fsage.adaptive.surface import LEVEL, Belief, Z, believe, prior
from fsage.model import typed
from fsage.model.message import say
from fsage.model.typed import JsonView
from fsage.plan.plan import Plan
from fsage.records import record
from fsage.run import job, runs, stopping
from fsage.run.adaptive_run import AdaptiveRun, TimeOver
from fsage.run.play import PlayFailed
from fsage.study.cells import Cell
from fsage.study.study import StudyError
from fsage.text.sizes import duration


def check(plan: Plan, precision: float, seconds: float | None) -> None:
    """Raise StudyError where a study cannot be measured within a budget, or `seconds` are too few for its question."""
    run = AdaptiveRun(plan, precision)
    needed = sum(visit.seconds for visit in run.primary_visits())
    if seconds is not None and needed > seconds:
        raise StudyError(
            f"study {plan.study.name}: its primary comparisons alone take {duration(needed)}, and the budget is "
            f"{duration(seconds)}: give it more, or narrow it down by only="
        )


def measure(plan: Plan, precision: float, inventory: Path, others: Sequence[Plan] = ()) -> None:
    """Measure what says most until all is known within ± `precision` (0.03: 3%), or the run's time is over.

    `others`: plans of the targets that share the study, which measure at the same time. Then each planned cell has a
    record, measured or skipped with its prediction. Raises PlayFailed, StudyError.
    """
    for state in plan.states:
        job.collect(plan, state)
    run = AdaptiveRun(plan, precision, inventory, others)
    try:
        for state, cells in run.primary().items():
            run.measure(state, cells)
        beliefs = explore(run, precision)
    except TimeOver as why:
        say(f"{plan.title}: the time of this run is over: {why}")
        beliefs = [] if run.primary() else [believe(run.points, samples) for samples in run.samples()]
    runs.check()
    if beliefs:
        sentence = _end(run, beliefs)
        keep(run, beliefs, f"not measured: predicted by the measured cells. {_held_out(beliefs)}")
    else:  # its question is open: what a surface through few states says would look like an answer
        sentence = f"{run.count()}; the others are not predicted, because primary comparisons lack cells"
        run.samples()  # raises where nothing was measured
        keep(run, beliefs, "not measured, nor predicted: too little was measured")
    for state in plan.states:
        if lacking := record.publish(plan, state):
            raise PlayFailed(f"{len(lacking)} cells of state {state} have no observation, such as {lacking[0].name}")
    say(f"{plan.title}: {sentence}")


@threadpool_limits.wrap(limits=1)  # on small matrices a second thread only waits
def forecast(plan: Plan, precision: float, seconds: float | None) -> str:
    """What a budget buys on a surface of usual smoothness and noise, in a sentence: a guess before it is measured."""
    run = AdaptiveRun(plan, precision)
    beliefs = [prior(run.points)]  # alike for all rates
    left, of_a_layout = run.all_left(), run.left()
    visits, costs, spent = run.primary_visits(), run.costs(), 0.0
    taken: Counter[int] = Counter()
    states = set()
    while visits:
        for visit in visits:
            more = Counter(visit.samples) + Counter(costs.brings.pop(visit.state, {}))
            beliefs = [belief.after(more) for belief in beliefs]
            taken.update(visit.samples)
            states.add(visit.state)
            spent += visit.seconds
            costs.reach[visit.state] = plan.reach_from_empty_seconds(run.layouts[run.states[visit.state]][0])
        now_left = np.minimum(of_a_layout, left - np.array([taken[number] for number in range(len(left))]))
        rest = math.inf if seconds is None else seconds - spent
        best = Choice(beliefs, run.state, now_left, run.wanted, costs, precision, rest).best()
        visits = [best] if best else []
    wide = max(float(belief.half_width.max()) for belief in beliefs)
    return (
        f"budget {plan.title}: about {sum(taken.values())} cells in {len(states)} of {len(run.states)} states, "
        f"{duration(spent)}; the other rates are then predicted within about ±{wide:.1%} or better, if they are as "
        "smooth and as little noisy as most are"
    )


def _held_out(beliefs: list[Belief]) -> str:
    """How good predictions were where they could be held against what was measured."""
    tried = [belief for belief in beliefs if belief.held_out and not math.isnan(belief.coverage)]
    if not tried:
        return "Too few states were measured to hold predictions against them"
    count = sum(belief.held_out for belief in tried)
    inside = sum(belief.coverage * belief.held_out for belief in tried) / count
    stretched = max(float(belief.stretch.max()) for belief in tried)
    wider = f", which are {stretched:.1f} times as wide as the model's own" if stretched > 1.05 else ""
    held = f"Each measured state or cell held out in turn, {inside:.1%} of {count} rates"
    return f"{held} lay in their {LEVEL:.0%} intervals{wider}"


def _end(run: AdaptiveRun, beliefs: list[Belief]) -> str:
    wide = unknown(beliefs, run.precision, run.wanted)
    sentence = f"{run.known(beliefs)}. {_held_out(beliefs)}."
    if not wide.any():
        return sentence
    worst = max(float(belief.half_width[wide].max()) for belief in beliefs)
    left = run.left()
    noise = max(float(belief.noise[wide].max()) for belief in beliefs)
    reason = (
        "for the time was over"
        if left[wide].any()
        else f"though all their cells were measured: a sample's noise is {noise:.1%}, and "
        f"{len(run.groups[0].cells)} of them give ±{Z * noise / math.sqrt(len(run.groups[0].cells)):.1%} at best"
    )
    return f"{sentence} {int(wide.sum())} rates are not, the worst within ±{worst:.1%}, {reason}."


def keep(run: AdaptiveRun, beliefs: list[Belief], why: str) -> None:
    """Note an observation of each cell that is left: not measured, `why`, and what it is predicted to be."""
    plan = run.plan
    primary = {(state, cell.name) for state, cells in run.primary().items() for cell in cells}
    observations = (record.observation_of(plan, *each) for group in run.groups for each in group.cells)
    like = next(observation for observation in observations if observation and observation["status"] == "done")
    for number, left in enumerate(run.cells_left()):
        predicted = {"predicted": _predicted(run, beliefs, number)} if beliefs else {}
        for state, cell in left:
            of_cell = f"{stopping.LEFT_OUT}; {why}" if (state, cell.name) in primary else why
            record.keep(
                {**_of_state(plan, state, like), **_of_cell(cell), "why": of_cell, **predicted},
                plan.results.root,
                plan.target.name,
            )
    for state in plan.states:
        measured = run.is_measured(state)
        for cell in plan.to_measure(state):  # beside planned ones
            alone = "not measured: " + ("the time was over" if measured else "nothing else was measured in this state")
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


def _of_state(plan: Plan, state: str, like: JsonView) -> dict[str, object]:
    """An observation of a state that is said to be as planned: nobody looked."""
    steps = plan.steps(state)
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
