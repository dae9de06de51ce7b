"""A study within a budget: the primary comparisons first, then visit after visit to where most is learned.

What is not measured in the end has a row in its state's manifest, with the rates that the measured cells predict.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from fsage.adaptive import LEVEL, Belief, Choice, Samples, Visit, Z, believe, prior, unknown
from fsage.base.message import say
from fsage.base.sizes import duration
from fsage.plan import Plan
from fsage.records import store
from fsage.records.store import Reason
from fsage.run import job, runs
from fsage.run.adaptive_run import AdaptiveRun, TimeOver
from fsage.study import StudyError


def check(plan: Plan, precision: float, seconds: float | None) -> None:
    """Raise StudyError where a study cannot be measured within a budget, or `seconds` are too few for its question."""
    run = AdaptiveRun(plan, precision)
    needed = sum(visit.seconds for visit in run.primary_visits())
    if seconds is not None and needed > seconds:
        lengths = [duration(needed), duration(seconds)]
        if lengths[0] == lengths[1]:
            lengths = [f"{needed:.0f} s", f"{seconds:.0f} s"]
        raise StudyError(
            f"study {plan.study.name}: its primary comparisons alone take {lengths[0]}, and the budget is "
            f"{lengths[1]}: give it more, or narrow it down by only="
        )


def measure(
    plan: Plan,
    precision: float,
    others: Sequence[Plan] = (),
    expect: Callable[[float], Mapping[tuple[str, str], float]] = lambda seconds: {},
) -> None:
    """Measure what says most until all is known within ± `precision` (0.03: 3%), or the run's time is over.

    `others`: plans of the targets that share the study, which measure at the same time. `expect`: within so many
    seconds, the rate of each cell that follows from counts; what is predicted is then by how much the measured ones
    differ. In the end each planned cell has a record, or a row with its prediction in its state's manifest. Raises
    PlayFailed, StudyError.
    """
    for state in plan.states:
        job.take(plan, state)
    run = AdaptiveRun(plan, precision, others)
    if not others:
        run.expected = expect(run.seconds())
    try:
        for state, cells in run.primary().items():
            run.measure(state, cells)
        beliefs = explore(run, precision)
    except TimeOver as why:
        say(f"{plan.title}: the time of this run is over: {why}")
        if run.primary():
            beliefs = []
        else:
            beliefs = [believe(run.points, samples) for samples in run.samples()]
    runs.check()
    if beliefs:
        sentence = _end(run, beliefs)
        reason = f"not measured: {run.predicted_by}. {_held_out(beliefs)}"
    else:  # its question is open: what a surface through few states says would look like an answer
        sentence = f"{run.count()}; the others are not predicted, because primary comparisons lack cells"
        run.samples()  # raises where nothing was measured
        reason = "not measured, nor predicted: too little was measured"
    for state, left_out in reasons(run, beliefs, reason).items():
        store.write_manifest(plan, state, left_out)
    say(f"{plan.title}: {sentence}")


@threadpool_limits.wrap(limits=1)  # on small matrices a second thread only waits
def forecast(plan: Plan, precision: float, seconds: float | None) -> str:
    """What a budget buys on a surface of usual smoothness and noise, in a sentence: a guess before it is measured."""
    run = AdaptiveRun(plan, precision)
    beliefs = [prior(run.points)]  # alike for all rates
    left = run.all_left()
    if not left.any():
        return f"budget {plan.title}: nothing is left to measure"
    of_a_layout = run.left()
    visits = run.primary_visits()
    costs = run.costs()
    spent = 0.0
    taken = np.zeros(len(left), dtype=int)
    states = set()
    while True:
        for visit in visits:
            more = Counter(visit.samples) + Counter(costs.brings.pop(visit.state, {}))
            beliefs = [belief.after(more) for belief in beliefs]
            for group, count in visit.samples.items():
                taken[group] += count
            states.add(visit.state)
            spent += visit.seconds
            costs.reach[visit.state] = plan.estimates.reach_from_empty(run.layouts[run.states[visit.state]][0]).seconds
        now_left = np.minimum(of_a_layout, left - taken)
        rest = math.inf if seconds is None else seconds - spent
        best = Choice(beliefs, run.state, now_left, run.wanted, costs, precision, rest).best()
        if best is None:
            break
        visits = [best]
    work = f"about {taken.sum()} cells in {len(states)} of {len(run.states)} states, {duration(spent)}"
    if (taken >= left).all():
        return f"budget {plan.title}: {work}, which is all that is left"
    wide = max(float(belief.half_width.max()) for belief in beliefs)
    return (
        f"budget {plan.title}: {work}; the other rates are then predicted within about ±{wide:.1%} or better, if they "
        "are as smooth and as little noisy as most are"
    )


def _held_out(beliefs: list[Belief]) -> str:
    """How good predictions were where they could be held against what was measured."""
    tried = [belief for belief in beliefs if belief.held_out and not math.isnan(belief.coverage)]
    if not tried:
        return "Too few states were measured to hold predictions against them"
    counts = [belief.held_out for belief in tried]
    inside = np.average([belief.coverage for belief in tried], weights=counts)
    stretched = np.max([belief.stretch for belief in tried])
    sentence = f"Each measured state or cell held out in turn, {inside:.1%} of {sum(counts)} rates"
    sentence += f" lay in their {LEVEL:.0%} intervals"
    if stretched > 1.05:
        sentence += f", which are {stretched:.1f} times as wide as the model's own"
    return sentence


def _end(run: AdaptiveRun, beliefs: list[Belief]) -> str:
    wide = unknown(beliefs, run.precision, run.wanted)
    sentence = f"{run.known(beliefs)}. {_held_out(beliefs)}."
    if not wide.any():
        return sentence
    worst = np.max([belief.half_width[wide] for belief in beliefs])
    if run.left()[wide].any():
        reason = "for the time was over"
    else:
        noise = np.max([belief.noise[wide] for belief in beliefs])
        count = len(run.groups[0].cells)
        reason = (
            f"though all their cells were measured: a sample's noise is {noise:.1%}, and "
            f"{count} of them give ±{Z * noise / math.sqrt(count):.1%} at best"
        )
    return f"{sentence} {int(wide.sum())} rates are not, the worst within ±{worst:.1%}, {reason}."


def reasons(run: AdaptiveRun, beliefs: list[Belief], why: str) -> dict[str, dict[str, Reason]]:
    """State -> its cells that are left, each with `why` it is not measured, and what it is predicted to be."""
    plan = run.plan
    primary = run.primary()
    left_out: dict[str, dict[str, Reason]] = {state: {} for state in plan.states}
    for number, left in enumerate(run.cells_left()):
        predicted = _predicted(run, beliefs, number)
        for state, cell in left:
            of_cell = why
            if cell in primary.get(state, ()):
                of_cell = f"{store.LEFT_OUT}; {why}"
            left_out[state][cell.name] = Reason(of_cell, predicted)
    for state, of_state in left_out.items():
        if run.is_measured(state):
            beside = "the time was over"
        else:
            beside = "nothing else was measured in this state"
        for cell in plan.to_measure(state):
            of_state.setdefault(cell.name, Reason(f"not measured: {beside}"))
    return left_out


def _predicted(run: AdaptiveRun, beliefs: list[Belief], number: int) -> dict[str, float]:
    """Rates of a group with their intervals, as columns of the table."""
    rates: dict[str, float] = {}
    level = math.log(run.expected_of(run.groups[number].cells))
    for rate, belief in zip(run.rates, beliefs, strict=False):  # of none: nothing is known
        middle = level + float(belief.mean[number])
        wide = math.log1p(float(belief.half_width[number]))
        for name, value in (("", middle), ("_low", middle - wide), ("_high", middle + wide)):
            rates[f"{rate}_predicted{name}"] = math.exp(value)
    return rates


TESTS = 4
"""So many states, one after another, must lie where they were predicted."""
SEED = 67005


@threadpool_limits.wrap(limits=1)  # on small matrices a second thread only waits
def explore(study: AdaptiveRun, precision: float) -> list[Belief]:
    """Measure until all rates are known within ± `precision`; what is known of each then.

    `study`: or what has, as one of a simulation, its points, wanted, samples, left, costs, seconds, take and say.
    When the model says that they are, it is put to the test: states that nobody visited are drawn, and what is measured
    there must lie where it was predicted. Where it does not, intervals get wider by that, and measuring continues.
    """
    draw = random.Random(SEED)
    beliefs = [believe(study.points, samples) for samples in study.samples()]
    stood = 0
    while True:
        left = study.left()
        seconds = study.seconds()
        choice = Choice(beliefs, study.points.state, left, study.wanted, study.costs(), precision, seconds)
        visit = choice.best()
        tested = None
        if visit is None and stood < TESTS and not unknown(beliefs, precision, study.wanted).any():
            visit = tested = _test(study, draw)
        if visit is None:
            return beliefs
        study.take(visit)
        samples = study.samples()
        if tested:
            stood = stood + 1 if _stands(beliefs, samples, tested) else 0
        beliefs = [believe(study.points, sample, before) for sample, before in zip(samples, beliefs, strict=True)]
        study.say(beliefs)


def _test(study: AdaptiveRun, draw: random.Random) -> Visit | None:
    """One sample in a state that was not visited, if there is one and the time for it."""
    counts = study.samples()[0].count
    costs = study.costs()
    visited = set(study.points.state[counts > 0].tolist())
    seconds = study.seconds()
    visits = []
    for group in np.flatnonzero(study.left() > 0).tolist():
        state = int(study.points.state[group])
        takes_s = float(costs.reach[state] + costs.sample[group])
        if state not in visited and takes_s <= seconds:
            visits.append(Visit(state, {group: 1}, takes_s))
    if visits:
        return draw.choice(visits)
    return None


def _stands(beliefs: list[Belief], samples: list[Samples], tested: Visit) -> bool:
    """Whether every rate that was measured lies where it was predicted, by the interval of one sample."""
    for belief, measured in zip(beliefs, samples, strict=True):
        for group in tested.samples:
            wide = Z * belief.stretch[group] * math.sqrt(belief.covariance[group, group] + belief.noise[group] ** 2)
            if measured.count[group] and abs(measured.median[group] - belief.mean[group]) > wide:
                return False
    return True
