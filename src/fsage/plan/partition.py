"""Which states of a study each of several targets measures: all, those of its levels, or its share."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fsage.plan.plan import Plan
from fsage.study.study import Study, StudyError, means
from fsage.study.targets import SHARE, Bind

Parts = dict[str, tuple[str, ...]]
"""Target -> names of its states, in planned order."""


def partition_states(plans: Mapping[str, Plan], lost: Collection[str] = ()) -> Parts:
    """Return the part of each target; `plans` are those of the whole study. Raises StudyError.

    What is missing of a `lost` target's share goes to the others.
    """
    study = next(iter(plans.values())).study
    if isinstance(study.targets, Bind):
        return _bound(plans, study.targets.bind)
    if study.targets == SHARE:
        return _shared(plans, lost)
    return {name: tuple(plan.states) for name, plan in plans.items()}


def common_states(study: Study, states: Collection[str]) -> list[str]:
    """Return the states that all targets measure which share a study: those of its primary comparisons."""
    named = {text for pair in study.headline for text in (pair.state, pair.against)}
    return [name for name in states if any(means(text, name) for text in named)]


def _bound(plans: Mapping[str, Plan], axis: str) -> Parts:
    """The axis' levels in turn."""
    first = next(iter(plans.values()))
    of_state: dict[str, object] = {name: state.axes[axis] for name, state in first.states.items()}
    levels = list(dict.fromkeys(of_state.values()))
    if len(levels) < len(plans):
        raise StudyError(
            f"study {first.study.name} gives each target a level of {axis}: it has {len(levels)} levels, and "
            f"{len(plans)} targets were named ({', '.join(plans)})"
        )
    return {
        name: tuple(state for state, level in of_state.items() if levels.index(level) % len(plans) == place)
        for place, name in enumerate(plans)
    }


def _shared(plans: Mapping[str, Plan], lost: Collection[str]) -> Parts:
    """The common states on each; of the others each on one: where it was begun, else in runs of equally long work.

    Runs, because the states of one population come one after the other.
    """
    first = next(iter(plans.values()))
    common = common_states(first.study, first.states)

    def whole(target: str, state: str) -> bool:
        return not plans[target].to_measure(state)

    stay = [name for name in plans if name not in lost]
    if not stay:
        raise StudyError(f"study {first.study.name}: no target is left: {', '.join(plans)} are all said to be lost")
    # Without the common states nobody knows how a lost target compares: what it measured stands in its own results.
    count = [name for name in plans if name in stay or all(whole(name, state) for state in common)]
    owner: dict[str, str] = {}
    for state in first.states:
        measured = (name for name in count if whole(name, state))
        begun = (name for name in stay if plans[name].results.recorded(state))
        if state not in common and (first_target := next(measured, None) or next(begun, None)):
            owner[state] = first_target
    work = {
        name: sum(
            plans[name].state_seconds(state) for state in first.states if state in common or owner.get(state) == name
        )
        for name in stay
    }
    rest = [state for state in first.states if state not in common and state not in owner]
    each = {state: first.state_seconds(state) for state in rest}
    even = (sum(work.values()) + sum(each.values())) / len(stay)
    room = {name: max(0.0, even - work[name]) for name in stay}
    dealt, until = 0.0, 0.0
    for name in stay:
        until += room[name] / (sum(room.values()) or 1) * sum(each.values())
        while rest and (name == stay[-1] or dealt + each[rest[0]] / 2 <= until):
            state = rest.pop(0)
            owner[state] = name
            dealt += each[state]
    return {
        name: tuple(state for state in first.states if name in count and (state in common or owner[state] == name))
        for name in plans
    }
