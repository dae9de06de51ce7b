"""The planned cells of a study as points of a surface: what is measured of them, what is left, and what each costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fsage import workloads
from fsage.adaptive import Belief, Costs, Points, Samples, Visit, unknown
from fsage.base import Failure
from fsage.base.message import say
from fsage.plan import Plan
from fsage.records import store
from fsage.run import job, runs
from fsage.run.play import PlayFailed
from fsage.run.progress import Progress
from fsage.study import StudyError
from fsage.study.cells import Cell
from fsage.study.comparisons import unseeded

STATE_AXES = ("capacity", "fragmentation", "file_size")
OF_SIZE = ("file_size", "transfer_size")
"""Axes along which a factor counts, not a difference."""


class TimeOver(Failure):
    """The run's time is over before all that was begun is measured."""


class OfLayout(NamedTuple):
    """A cell and the layout that it is measured in: a state of the plan."""

    layout: str
    cell: Cell

    @property
    def key(self) -> tuple[str, str]:
        """The names of both."""
        return self.layout, self.cell.name


@dataclass(frozen=True)
class Group:
    """Planned cells of a state that differ in the layout and the iteration alone, and sentinels that are alike.

    `state` is named without a seed; `values`: where they are on the axes.
    """

    state: str
    cells: tuple[OfLayout, ...]
    sentinels: tuple[OfLayout, ...]
    values: dict[str, float]


class AdaptiveRun:
    """A study's groups as points of a surface, and what was measured of them.

    Layouts of a state are one point: how they differ is the noise of its samples. A visit is to one of them.

    `others`: plans of other targets that share the study. What they measure tells of the same surface, but for the
    level of their target, which follows from what both measured; what they have to measure is not chosen here.
    """

    def __init__(self, plan: Plan, precision: float, others: Sequence[Plan] = ()) -> None:
        """Raises StudyError for a study whose cells are no surface over sizes and shares, or that compares nothing."""
        self.plan = plan
        self.precision = precision
        self.others = others
        owners: dict[str, Plan] = {}
        self.layouts: dict[str, list[str]] = {}
        for owner in (plan, *others):
            _check_surface(owner)
            for layout in owner.states:
                if layout not in owners:
                    owners[layout] = owner
                    self.layouts.setdefault(unseeded(layout), []).append(layout)
        self.states = list(self.layouts)
        self.groups: list[Group] = []
        for state in self.states:
            self.groups += self._groups(owners, state)
        if not plan.study.headline:
            raise StudyError(
                f"study {plan.study.name}: a budget measures first what `headline` compares, and it has none: name two "
                "states there. until=TIME ends any study at a time"
            )
        self.rates = workloads.rates_of(self.groups[0].cells[0].cell.params)
        self.state = np.array([self.states.index(group.state) for group in self.groups])
        own = set(map(unseeded, plan.states))
        self.wanted = np.array([group.state in own for group in self.groups])
        self.expected: Mapping[tuple[str, str], float] = {}
        """State and cell -> the rate that counts let one expect; what is learned of a cell is its rate over this."""
        self._read: dict[Path, dict[str, float]] = {}

    def _groups(self, owners: dict[str, Plan], state: str) -> list[Group]:
        """The groups of a state, over all its layouts."""
        cells: dict[str, list[OfLayout]] = {}
        sentinels: dict[str, list[OfLayout]] = {}
        for layout in self.layouts[state]:
            for cell in owners[layout].cells[layout]:
                if cell.kind == "planned":
                    cells.setdefault(cell.group, []).append(OfLayout(layout, cell))
                elif cell.kind == "sentinel":
                    sentinels.setdefault(cell.group, []).append(OfLayout(layout, cell))
        groups = []
        for alike, planned in cells.items():
            planned.sort(key=lambda each: each.cell.params["iteration"])
            layout, cell = planned[0]
            axes = owners[layout].states[layout].axes
            values = {axis: float(axes[axis]) for axis in STATE_AXES}
            values["transfer_size"] = float(cell.params["transfer_size"])
            for axis in OF_SIZE:
                values[axis] = math.log2(values[axis])
            groups.append(Group(state, tuple(planned), tuple(sentinels.get(alike, ())), values))
        return groups

    @cached_property
    def points(self) -> Points:
        """Each group's place on the axes that vary, from 0 to 1; the transfer size is the last in any case."""
        table = np.array([list(group.values.values()) for group in self.groups])
        span = np.ptp(table, axis=0)
        varies = span > 0
        scaled = (table - table.min(0)) / np.where(varies, span, 1)
        varies[-1] = True
        return Points(scaled[:, varies], self.state)

    def costs(self) -> Costs:
        """From the plan's estimates; what is measured in a state beside its planned cells is part of reaching it."""
        following = self._following()
        sample = []
        for group in self.groups:
            own = [each for each in group.cells if each.layout in self.plan.states]
            sample.append(self.plan.estimates.cell(*own[0]).seconds if own else 0.0)
        reach = dict.fromkeys(self.states, 0.0)
        for state, layout in following.items():
            reach[state] = self.reach_s(layout)
        return Costs(np.array(sample), np.array(list(reach.values())), self._brings(following))

    def _brings(self, following: dict[str, str]) -> dict[int, dict[int, int]]:
        """What is measured in any case where a state is reached, as far as it tells of a group."""
        brought: dict[int, dict[int, int]] = {}
        for number, group in enumerate(self.groups):
            layout = following.get(group.state)
            if layout is None:
                continue
            due = {cell.name for cell in self.plan.to_measure(layout)}
            missing = sum(each.layout == layout and each.cell.name in due for each in group.sentinels)
            if missing:
                brought.setdefault(int(self.state[number]), {})[number] = missing
        return brought

    def _following(self) -> dict[str, str]:
        """State -> the layout that the next visit is to: that with most planned cells left."""

        def left(layout: str) -> int:
            return sum(cell.kind == "planned" for cell in self.plan.to_measure(layout))

        following: dict[str, str] = {}
        for state, layouts in self.layouts.items():
            own = [layout for layout in layouts if layout in self.plan.states]
            if own:
                following[state] = max(own, key=left)
        return following

    def reach_s(self, state: str) -> float:
        """Seconds until a state is there, with what is measured in it beside the planned cells, if that is missing."""
        seconds = self.plan.estimates.reach_from_empty(state).seconds
        for cell in self.plan.to_measure(state):
            if cell.kind != "planned":
                seconds += self.plan.estimates.cell(state, cell).seconds
        return seconds

    def primary(self) -> dict[str, list[Cell]]:
        """State -> cells that the primary comparisons need and that have no observation yet, in planned order."""
        largest = max(group.cells[0].cell.params["transfer_size"] for group in self.groups)
        by_state: dict[str, list[Cell]] = {}
        for name in self.plan.states:
            pairs = self.plan.study.comparisons_of(name)
            for cell in self.plan.to_measure(name) if pairs else ():
                is_largest = cell.kind == "planned" and cell.params["transfer_size"] == largest
                if is_largest and any(pair.meets(cell.params) for pair in pairs):
                    by_state.setdefault(name, []).append(cell)
        return by_state

    def primary_visits(self) -> list[Visit]:
        """The visits that these are measured in."""
        numbers: dict[tuple[str, str], int] = {}
        for number, group in enumerate(self.groups):
            numbers |= {each.key: number for each in group.cells}
        visits = []
        for layout, cells in self.primary().items():
            samples = Counter(numbers[layout, cell.name] for cell in cells)
            seconds = self.reach_s(layout) + sum(self.plan.estimates.cell(layout, cell).seconds for cell in cells)
            visits.append(Visit(self.states.index(unseeded(layout)), dict(samples), seconds))
        return visits

    def cells_left(self) -> list[list[OfLayout]]:
        """The cells of each group without an observation, in order of their iterations."""
        todo: set[tuple[str, str]] = set()
        for layout in self.plan.states:
            todo |= {(layout, cell.name) for cell in self.plan.to_measure(layout)}
        left = []
        for group in self.groups:
            left.append([each for each in group.cells if each.key in todo])
        return left

    def all_left(self) -> NDArray[np.int_]:
        """How many these are."""
        return np.array(list(map(len, self.cells_left())))

    def left(self) -> NDArray[np.int_]:
        """How many of these the next visit of a state may take: those of one layout."""
        return np.array(list(map(len, self._of_next_layout())))

    def _of_next_layout(self) -> list[list[OfLayout]]:
        following = self._following()
        left = []
        for group, cells in zip(self.groups, self.cells_left(), strict=True):
            layout = following.get(group.state)
            left.append([each for each in cells if each.layout == layout])
        return left

    def seconds(self) -> float:
        """What is left of the run's time."""
        until = runs.current().until
        if until:
            return (until - datetime.now().astimezone()).total_seconds()
        return math.inf

    def samples(self) -> list[Samples]:
        """What the valid cells gave, for each rate. Raises PlayFailed where there is none."""
        samples = []
        for rate in self.rates:
            own = self._logs(self.plan, rate)
            if not any(own):
                raise PlayFailed("no valid cell was measured, so nothing can be said of the others")
            others = [self._logs(plan, rate) for plan in self.others]
            samples.append(Samples.of_groups(levelled(own, others)))
        return samples

    def _logs(self, plan: Plan, rate: str) -> list[list[float]]:
        """The logarithms of a rate that the valid cells of each group had on one target."""
        by_group = []
        for group in self.groups:
            logs = []
            for each in (*group.cells, *group.sentinels):
                metrics = self._metrics(plan, *each) if each.layout in plan.states else {}
                if metrics:
                    logs.append(math.log(metrics[rate] / self.expected_of([each])))
            by_group.append(logs)
        return by_group

    def expected_of(self, cells: Sequence[OfLayout]) -> float:
        """The median of what is expected of these cells (fsage.count.expected); 1 where nothing was counted."""
        return median(self.expected.get(each.key, 1.0) for each in cells)

    @property
    def predicted_by(self) -> str:
        """What predicts a cell that is not measured."""
        if self.expected:
            return "predicted by the measured cells, and by what its layout costs, as counted and computed"
        return "predicted by the measured cells"

    def is_measured(self, layout: str) -> bool:
        """Whether a layout has a valid cell."""
        cells = [cell for cell in self.plan.cells[layout] if cell.kind in ("planned", "sentinel")]
        return any(self._metrics(self.plan, layout, cell) for cell in cells)

    def take(self, visit: Visit) -> None:
        """Measure a visit's samples, all in one layout. Raises PlayFailed."""
        left = self._of_next_layout()
        layout = self._following()[self.states[visit.state]]
        cells = []
        for group, count in visit.samples.items():
            cells += [each.cell for each in left[group][:count]]
        self.measure(layout, cells)

    def measure(self, state: str, cells: Iterable[Cell]) -> None:
        """Build a state and measure these cells in it, with what is measured there beside planned ones.

        Raises TimeOver where the run's time did not suffice, PlayFailed where something else failed.
        """
        plan = self.plan
        names = {cell.name for cell in cells}
        todo = [cell for cell in plan.to_measure(state) if cell.kind != "planned" or cell.name in names]
        progress = Progress(plan, state, len(todo), self.seconds())
        before = dict(job.attempted(plan, state, todo))
        try:
            failed, refused = job.visit_cells(plan, state, todo, progress)
        except runs.WindowClosed as why:
            raise TimeOver(str(why).partition(". What was measured")[0]) from why
        runs.check()
        left = [cell for cell in plan.to_measure(state) if cell.name in before]
        if left and self.seconds() < plan.estimates.cell(state, left[0]).seconds:  # so its host did not begin it
            raise TimeOver(f"{len(left)} of {len(todo)} cells of state {state} were not begun")
        if failed or refused:
            raise PlayFailed(f"state {state}: {failed or refused[0]}")
        after = dict(job.attempted(plan, state, left))
        disturbed = [cell for cell in left if after[cell.name] > before[cell.name]]
        if disturbed:
            self.measure(state, disturbed)

    def say(self, beliefs: list[Belief]) -> None:
        """To people, how far it is."""
        say(f"{self.plan.title}: {self.known(beliefs)}")

    def known(self, beliefs: list[Belief]) -> str:
        """How much was measured, and how much of the rest is known."""
        wanted = self.wanted
        wide = unknown(beliefs, self.precision, wanted)[wanted]
        return f"{self.count()}; {np.mean(~wide):.0%} of the rates are known within ±{self.precision:.1%}"

    def count(self) -> str:
        """How many cells and states were measured."""
        left = self.all_left()[self.wanted]
        whole = np.array([len(group.cells) for group in self.groups])[self.wanted]
        states = len(set(self.state[self.wanted][self.samples()[0].count[self.wanted] > 0].tolist()))
        every = len(set(map(unseeded, self.plan.states)))
        return f"{int((whole - left).sum())} cells measured in {states} of {every} states"

    def _metrics(self, plan: Plan, state: str, cell: Cell) -> dict[str, float]:
        """A valid cell's rates; {} where it is not valid, or was not measured."""
        path = plan.results.record(state, cell.name)
        if path not in self._read:
            metrics = store.metrics_of(plan, state, cell)
            if metrics is None:
                return {}
            self._read[path] = metrics
        return self._read[path]


def _check_surface(plan: Plan) -> None:
    """Raise StudyError for a study whose cells are no surface over sizes and shares."""
    study = plan.study
    is_surface = set(study.cells.axes) == {"transfer_size"} and not study.additional_cells
    others = set()
    for state in plan.states.values():
        is_surface = is_surface and state.axes.keys() >= set(STATE_AXES)
        others.add(str(state.nominal.get("axes")))
    if not is_surface or len(others) > 1:
        raise StudyError(
            f"study {study.name}: a budget needs states that differ in {', '.join(STATE_AXES)} alone, and cells "
            "that differ in transfer_size alone. until=TIME ends any study at a time"
        )


def levelled(own: list[list[float]], others: Sequence[list[list[float]]]) -> list[list[float]]:
    """Log rates of our groups with those of other targets, each of these moved by its target's level.

    A level is the median difference over the groups that both measured; a target without common ones does not count.
    """
    merged = list(map(list, own))
    for theirs in others:
        apart = [median(b) - median(a) for a, b in zip(own, theirs, strict=True) if a and b]
        if apart:
            level = median(apart)
            for group, more in zip(merged, theirs, strict=True):
                group += [value - level for value in more]
    return merged
