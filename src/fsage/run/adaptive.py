"""A study within a budget: the primary comparisons first, then visit after visit to where most is learned.

What is not measured in the end has a record too: skipped, with the rates that the measured cells predict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from fsage.adaptive.design import Choice, unknown
from fsage.adaptive.explore import explore
from fsage.adaptive.surface import LEVEL, Belief, Z, prior
from fsage.plan.plan import Plan
from fsage.records import record
from fsage.run import job, predictions, runs
from fsage.run.course import Course, tell
from fsage.run.play import PlayFailed
from fsage.study.study import StudyError
from fsage.text.numbers import duration


def check(plan: Plan, precision: float, seconds: float | None) -> None:
    """Raise StudyError where a study cannot be measured within a budget, or `seconds` are too few for its question."""
    course = Course(plan, precision)
    needed = sum(visit.seconds for visit in course.primary_visits())
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
        job.take_up(plan, state)
    course = Course(plan, precision, inventory, others)
    for state, cells in course.primary().items():
        course.measure(state, cells)
    beliefs = explore(course, precision)
    runs.check()
    said = _end(course, beliefs)
    predictions.keep(course, beliefs, f"not measured: predicted by the measured cells. {_held_out(beliefs)}")
    for state in plan.states:
        if lacking := record.hand_over(plan, state):
            raise PlayFailed(f"{len(lacking)} cells of state {state} have no observation, such as {lacking[0].name}")
    tell(f"{plan.title}: {said}")


@threadpool_limits.wrap(limits=1)  # on small matrices a second thread only waits
def forecast(plan: Plan, precision: float, seconds: float | None) -> str:
    """What a budget buys on a surface of usual smoothness and noise, in a sentence: a guess before it is measured."""
    course = Course(plan, precision)
    beliefs = [prior(course.points)]  # alike for all rates
    left = course.left()
    visits, costs, spent = course.primary_visits(), course.costs(), 0.0
    taken: Counter[int] = Counter()
    states = set()
    while visits:
        for visit in visits:
            more = Counter(visit.samples) + Counter(costs.brings.pop(visit.state, {}))
            beliefs = [one.after(more) for one in beliefs]
            taken.update(visit.samples)
            states.add(visit.state)
            spent += visit.seconds
            costs.reach[visit.state] = plan.reach_from_empty_seconds(course.states[visit.state])
        now_left = left - np.array([taken[number] for number in range(len(left))])
        rest = math.inf if seconds is None else seconds - spent
        found = Choice(beliefs, course.state, now_left, course.wanted, costs, precision, rest).best()
        visits = [found] if found else []
    wide = max(float(one.half_width.max()) for one in beliefs)
    return (
        f"budget {plan.title}: about {sum(taken.values())} cells in {len(states)} of {len(course.states)} states, "
        f"{duration(spent)}; the other rates are then predicted within about ±{wide:.1%} or better, if they are as "
        "smooth and as little noisy as most are"
    )


def _held_out(beliefs: list[Belief]) -> str:
    """How good predictions were where they could be held against what was measured."""
    tried = [one for one in beliefs if one.held_out and not math.isnan(one.coverage)]
    if not tried:
        return "Too few states were measured to hold predictions against them"
    count = sum(one.held_out for one in tried)
    inside = sum(one.coverage * one.held_out for one in tried) / count
    stretched = max(float(one.stretch.max()) for one in tried)
    wider = f", which are {stretched:.1f} times as wide as the model's own" if stretched > 1.05 else ""
    held = f"Each measured state or cell held out in turn, {inside:.1%} of {count} rates"
    return f"{held} lay in their {LEVEL:.0%} intervals{wider}"


def _end(course: Course, beliefs: list[Belief]) -> str:
    wide = unknown(beliefs, course.precision, course.wanted)
    said = f"{course.known(beliefs)}. {_held_out(beliefs)}."
    if not wide.any():
        return said
    worst = max(float(one.half_width[wide].max()) for one in beliefs)
    left = course.left()
    noise = max(float(one.noise[wide].max()) for one in beliefs)
    reason = (
        "for the time was over"
        if left[wide].any()
        else f"though all their cells were measured: a sample's noise is {noise:.1%}, and "
        f"{len(course.groups[0].cells)} of them give ±{Z * noise / math.sqrt(len(course.groups[0].cells)):.1%} at best"
    )
    return f"{said} {int(wide.sum())} rates are not, the worst within ±{worst:.1%}, {reason}."
