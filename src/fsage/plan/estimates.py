"""What cells and states of a plan take, in seconds and bytes, by the claim's calibration; a guess before the claim."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fsage import workloads
from fsage.base import MIB
from fsage.model.claim import Claim
from fsage.model.structure import Step
from fsage.plan.target import Target, check_places
from fsage.recipes import State
from fsage.study import Study, StudyError
from fsage.study.cells import Cell

STATE_S = 5.0  # a call of ansible-playbook with its checks, and building it: 3 s here (measured), more on several hosts
CALL_S = 50e-6  # a system call of a step that makes files, as measured over 10,000 files and more
CELL_S = 4.0  # before the target was claimed and calibrated, where a workload names no CELL_S: two samples of a second


class Cost(NamedTuple):
    """What one thing takes: its time, and the bytes that it writes."""

    seconds: float
    written_bytes: int = 0


class Outlook(NamedTuple):
    """What a state takes: its cells by name, and reaching it, perhaps from empty. `left`: the cells to measure."""

    left: list[Cell]
    cells_s: dict[str, float]
    reach_s: float
    from_empty: bool

    @property
    def left_s(self) -> float:
        """How long these cells take."""
        return sum(self.cells_s[cell.name] for cell in self.left)


@dataclass(frozen=True)
class Estimates:
    """Estimates for the states of a study on a target; `states` by name, in the order in which they are built."""

    study: Study
    target: Target
    claim: Claim | None
    states: Mapping[str, State]
    inventory: Path
    _known: dict[tuple[str, str], Cost] = field(default_factory=dict)

    def cell(self, state: str, cell: Cell) -> Cost:
        """What a cell takes; its workload computes it once for all iterations.

        Raises StudyError for what the claim rules out: so it is refused before any state is built.
        """
        key = state, str({**cell.params, "iteration": 0})
        if key not in self._known:
            try:
                self._known[key] = self._cell(state, cell)
            except ValueError as error:
                raise StudyError(f"study {self.study.name} on target {self.target.name}: {error}") from error
            except TypeError as error:  # a function of other parameters, or what it gives is of another type
                file = workloads.load(cell.params["workload"]).__file__
                raise StudyError(f"study {self.study.name}: {file}: {error}; see docs/adding.md") from error
        return self._known[key]

    def _cell(self, state: str, cell: Cell) -> Cost:
        workload = workloads.load(cell.params["workload"])
        params = workloads.params_of(cell.params)
        steps = self.steps(state)
        if hasattr(workload, "check"):
            workload.check(params, steps)
        self.target.check_kind(self.study.target, workload, cell)
        self.target.check_steps(steps)
        self.target.check_room(self.claim, steps)
        if self.claim is None:
            self.target.check_declared(self.inventory, workload, params)
            return Cost(getattr(workload, "CELL_S", CELL_S))
        with suppress(workloads.Unsupported):  # a cell that no target of this kind can run is a record
            self.target.check_rates(workload.commands(params, self.claim, steps))
        written_bytes, makes_bytes = workloads.bytes_of(params, self.claim)
        check_places(self.claim, state, tuple(steps), cell.params.get("place", 1), makes_bytes)
        seconds = workload.seconds(params, self.claim, steps)
        if not isinstance(seconds, (int, float)) or not 0 <= seconds < math.inf:
            raise ValueError(
                f"workload {cell.params['workload']}: seconds() gives {seconds!r}; a number from 0 is wanted"
            )
        return Cost(seconds, written_bytes)

    def steps(self, state: str) -> list[Step]:
        """The steps to a state from an empty target, by the declared seed: a drawn one costs as much as any."""
        return self.states[state].steps(self.target.file_scale, self.study.states.seed or 0)

    def reach(self, state: str) -> Cost:
        """What bringing a state about takes after the one that is planned before it."""
        return self._of_steps(self.due[state])

    def reach_from_empty(self, state: str) -> Cost:
        """The same from an empty target."""
        return self._of_steps(self.steps(state))

    def from_empty(self, state: str) -> bool:
        """Whether a state is built on an empty target, and not on the state that is planned before it."""
        return self.due[state] == self.steps(state)

    @cached_property
    def due(self) -> dict[str, list[Step]]:
        """State -> its steps that those of the state that is planned before it have not done."""
        due: dict[str, list[Step]] = {}
        population = ""
        before: list[Step] = []
        for name, state in self.states.items():
            steps = self.steps(name)
            done = 0
            if population == state.population:
                while before[done : done + 1] == steps[done : done + 1] != []:
                    done += 1
            due[name] = steps[done:]
            population = state.population
            before = steps
        return due

    def _of_steps(self, steps: Sequence[Step]) -> Cost:
        """What it takes to take steps, with the call that brings a state about; only that before the claim."""
        if self.claim is None or "capacity_bytes" not in self.claim:
            return Cost(STATE_S)
        capacity_bytes = self.claim["capacity_bytes"]
        rate = self.claim["calibration"]["write_mib_s"] * MIB
        call_s = max(CALL_S, 1 / (self.target.spec["limits"]["operations_s"] or math.inf))
        written_bytes = 0
        calls = 0
        for step in steps:
            written_bytes += step.writes_bytes(capacity_bytes)
            calls += step.calls(capacity_bytes)
        return Cost(STATE_S + written_bytes / rate + calls * call_s, written_bytes)
