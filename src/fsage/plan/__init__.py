"""The plan: a study on a target, as states in order with their cells, and what of it is still to be measured.

`settings`: what a run may be told. `target`: the declared and the claimed target. `results`: where results lie.
`estimates` and `amount`: what a plan takes, and how much a cell moves. `pool`: a study on several targets. `words`:
what people are told of a plan.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

from fsage import recipes
from fsage.model import limits, plugins
from fsage.model.claim import Claim
from fsage.model.declaration import as_declared
from fsage.model.structure import Step
from fsage.plan import results
from fsage.plan.estimates import Estimates, Outlook
from fsage.plan.results import Results, Row
from fsage.plan.settings import PLACES, Commands
from fsage.plan.target import Target, is_here, load_claim, load_target
from fsage.study import Study, StudyError
from fsage.study.cells import NOT_NEEDED, Cell
from fsage.study.comparisons import known_names
from fsage.study.files import load_study
from fsage.text.strict import nearest

WHOLE: Mapping[str, object] = {}  # no study is narrowed
LAYOUTS = "layouts"


class Way(NamedTuple):
    """The steps to a state with the names of what they need, that by its name, and how long they and its cells take."""

    steps: list[Step]
    inputs: dict[str, str]
    seconds: float
    cells_s: dict[str, float]


@dataclass(frozen=True)
class Plan:
    """One study on one target."""

    study: Study
    target: Target
    results: Results
    claim: Claim | None
    studies: Path = Path(PLACES["studies"])
    inventories: Path = Path(PLACES["inventories"])
    part: tuple[str, ...] | None = None
    """Names of the states that are measured here, where several targets measure a study; None: all."""
    lost: bool = False
    """Whether nothing more is measured here: the target was said to be lost."""

    @property
    def title(self) -> str:
        """The study as a sentence names it, with the target where it is one of several."""
        if self.part is None:
            return self.study.name
        return f"{self.study.name} on {self.target.name}"

    @property
    def commands(self) -> Commands:
        """What messages name."""
        places = map(str, (self.results.root, self.studies, self.inventories))
        return Commands(self.study.name, self.target.name, *places)

    @property
    def inventory(self) -> Path:
        """The folder that declares its target, and names the target's hosts."""
        return self.inventories / self.target.name

    @property
    def layouts(self) -> Path:
        """The folder where saved layouts and images lie, beside the studies."""
        return self.studies / LAYOUTS

    @cached_property
    def states(self) -> dict[str, recipes.State]:
        """States by name, in the order in which they are built."""
        every = {state.name: state for state in self.study.expanded}
        if self.part is None:
            return every
        own = set(self.part)
        return {name: state for name, state in every.items() if name in own}

    @cached_property
    def cells(self) -> dict[str, tuple[Cell, ...]]:
        """State -> its cells in the order of measuring, diagnostic cells among them."""
        first = next(iter(self.states), None)
        study = self.study if self.target.of_kind.drifts else self.study.without_watch()
        return {name: tuple(study.cells_of(state, name == first)) for name, state in self.states.items()}

    @cached_property
    def todo(self) -> dict[str, tuple[Cell, ...]]:
        """State -> its missing cells, of each state that has any, or no manifest."""
        todo: dict[str, tuple[Cell, ...]] = {}
        for state in self.states:
            left = self.to_measure(state)
            if left and self.lost:
                continue
            if left or not self.manifest(state).exists():
                todo[state] = tuple(left)
        return todo

    @cached_property
    def missing(self) -> dict[str, tuple[Cell, ...]]:
        """State -> cells without a record, and without a reason why they have none; only states that have any."""
        return {state: cells for state, cells in self.todo.items() if cells}

    @property
    def missing_count(self) -> int:
        """How many cells these are."""
        return sum(map(len, self.missing.values()))

    def missing_cells(self) -> Iterator[tuple[str, Cell]]:
        """(state, cell) of these."""
        for state, cells in self.missing.items():
            for cell in cells:
                yield state, cell

    def manifest(self, state: str) -> Path:
        """What a state's job makes for Snakemake (fsage.records.store)."""
        return self.results.manifest(state, self.cells[state])

    def files(self) -> list[Path]:
        """What the table is made of: the record of each planned cell, and manifests. They may not be there."""
        records = [self.results.record(state, cell.name) for state, cell in self.all_cells()]
        return [*records, *map(self.manifest, self.states)]

    def skipped(self, state: str) -> dict[str, Row]:
        """Cell -> the row of a manifest that says why it was not measured.

        A stop rule counts as the study has it, and where no other cell of the group is missing.
        """
        rows = self.results.skipped(state)
        if not rows:
            return {}
        stop = self.study.cells.stop
        recorded = self.results.recorded(state)
        skipped = {}
        by_rule = []
        wanting = set()
        for cell in self.cells[state]:
            row = rows.get(cell.name)
            if row and row["params"] == cell.params:
                why = str(row["why"])
                if not why.startswith(NOT_NEEDED):
                    skipped[cell.name] = row
                elif stop and why.startswith(stop.reason):
                    by_rule.append(cell)
            elif cell.kind == "planned" and cell.name not in recorded:
                wanting.add(cell.group)
        for cell in by_rule:
            if cell.group not in wanting:
                skipped[cell.name] = rows[cell.name]
        return skipped

    @cached_property
    def unreached(self) -> set[str]:
        """States with missing cells that have no evidence yet."""
        return {state for state in self.missing if not self.results.state(state).exists()}

    @cached_property
    def seed(self) -> int:
        """The study's seed; drawn once and recorded where the study declares none."""
        if self.study.states.seed is not None:
            return int(self.study.states.seed)
        noted = results.read(self.results.seed)
        if noted is None:
            noted = {"seed": random.SystemRandom().randrange(10**5, 10**6)}
            results.write(self.results.seed, noted)
        return int(noted["seed"])

    def steps(self, state: str) -> list[Step]:
        """The steps by which a state is reached on this target."""
        return self.states[state].steps(self.target.file_scale, self.seed)

    def way_to(self, state: str, cells: Iterable[Cell]) -> Way:
        """How a state is reached, and what `cells` of it take.

        Raises StudyError for a state that the study has not, and for what claim or limits rule out.
        """
        self.check_state(state)
        self.check()
        steps, inputs = self.with_inputs(self.steps(state))
        cells_s = {cell.name: self.estimates.cell(state, cell).seconds for cell in cells}
        return Way(steps, inputs, self.estimates.reach(state).seconds, cells_s)

    def with_inputs(self, steps: list[Step]) -> tuple[list[Step], dict[str, str]]:
        """The steps with the names of what they need, and that by its name. Raises StudyError.

        Where a step needs something, the module `inputs` of its study says what: `needed(plan, step)`.
        """
        named: list[Step] = []
        inputs: dict[str, str] = {}
        for step in steps:
            if step.needs_input:
                name, inputs[name] = plugins.beside(step, "inputs").needed(self, step)
                step = step.with_input(name)
            named.append(step)
        return named, inputs

    def to_measure(self, state: str) -> list[Cell]:
        """Cells of a state that have at this moment neither a record nor a reason, in planned order."""
        recorded = self.results.recorded(state)
        left = [cell for cell in self.cells[state] if cell.name not in recorded]
        if not left:
            return []
        skipped = self.skipped(state)
        return [cell for cell in left if cell.name not in skipped]

    def check(self) -> None:
        """Raise StudyError for what claim or limits rule out in any state that is still to be measured."""
        return self._checked  # once: a plan does not change, and each request of it is checked

    @cached_property
    def _checked(self) -> None:
        for what, seconds, written in self.parts():
            why = limits.why_never(self.target.spec["limits"], what, seconds, written)
            if why:
                raise StudyError(f"study {self.study.name} on target {self.target.name}: {why}")

    def parts(self) -> Iterator[tuple[str, float, int]]:
        """What is begun on its own, with its seconds and bytes: each missing state's building, and each cell."""
        for state, cells in self.missing.items():
            self._check_files(state)
            yield f"building state {state}", *self.estimates.reach(state)
            for cell in cells:
                yield f"cell {cell.name} of state {state}", *self.estimates.cell(state, cell)

    def why_no_kernel(self) -> str | None:
        """Why this machine, if it is to measure, has not the kernels of the missing cells; None where it has."""
        names = {cell.params["kernel"] for _, cell in self.missing_cells() if cell.params.get("kernel")}
        if names and is_here(self.inventory):
            return self.target.of_kind.why_no_kernel(self.target.spec, names)
        return None

    def check_kernels(self) -> None:
        """Raise StudyError where it has not."""
        why = self.why_no_kernel()
        if why:
            raise StudyError(f"target {self.target.name}: {why}; nothing was touched")

    def _check_files(self, state: str) -> None:
        """Raise StudyError for a file beside the studies that a state needs, and that is not there."""
        for step in self.states[state].parts:
            if step.needs_input:
                name = plugins.beside(step, "inputs").file_of(step)
                if not (self.layouts / name).exists():
                    near = nearest(name, (path.name for path in self.layouts.glob("*"))) or " put it there"
                    raise StudyError(
                        f"study {self.study.name}: state {state}: {self.layouts} has no file {name!r};{near}"
                    )

    def check_state(self, name: str) -> None:
        """Raise StudyError for a state that the study has not."""
        if name not in self.states:
            raise StudyError(f"study {self.study.name} has no state {name!r}; {known_names(name, list(self.states))}")

    def check_cell(self, name: str) -> None:
        """Raise StudyError for a cell that no state of the study has."""
        names = sorted({cell.name for _, cell in self.all_cells()})
        if name not in names:
            raise StudyError(f"study {self.study.name} has no cell {name!r}; {known_names(name, names)}")

    def all_cells(self) -> Iterator[tuple[str, Cell]]:
        """(state, cell) of the whole plan."""
        for state, cells in self.cells.items():
            for cell in cells:
                yield state, cell

    @property
    def populates(self) -> int:
        """How many times the target is filled."""
        return len({state.population for state in self.states.values() if state.parts})

    @cached_property
    def estimates(self) -> Estimates:
        """What its states and cells take."""
        return Estimates(self.study, self.target, self.claim, self.states, self.inventory)

    def outlook(self) -> dict[str, Outlook]:
        """State -> what it takes, and what of it is left at this moment."""
        outlook: dict[str, Outlook] = {}
        for state, cells in self.cells.items():
            left = self.to_measure(state) if state in self.missing else []
            cells_s: dict[str, float] = {}
            for cell in cells:
                try:
                    cells_s[cell.name] = self.estimates.cell(state, cell).seconds
                except StudyError:  # of what is measured the target may be another one by now
                    if cell in left:
                        raise
            reach_s = self.estimates.reach(state).seconds
            outlook[state] = Outlook(left, cells_s, reach_s, self.estimates.from_empty(state))
        return outlook

    def state_seconds(self, state: str) -> float:
        """Estimate of what is still to be measured in a state, with reaching it; 0 where nothing is."""
        cells = self.missing.get(state, ())
        if not cells:
            return 0.0
        cells_s = sum(self.estimates.cell(state, cell).seconds for cell in cells)
        return cells_s + self.estimates.reach(state).seconds

    def seconds(self) -> float:
        """Estimate of all that is still to be measured, states included."""
        return sum(map(self.state_seconds, self.missing))

    def bytes_written(self) -> int | None:
        """Bytes that the missing cells write; None before the target was claimed."""
        if self.claim is None:
            return None
        return sum(self.estimates.cell(state, cell).written_bytes for state, cell in self.missing_cells())

    def compared_records(self) -> list[str]:
        """Records of another study that this one's report sets beside its own, as far as they exist."""
        compare = self.study.compare
        if compare is None:
            return []
        other = Results(self.results.root, self.target.name, compare.study)
        return list(map(str, results.stored(other.records(""))))


def load_plan(study_file: Path, inventory: Path, results_root: Path, only: Mapping[str, object] = WHOLE) -> Plan:
    """Read a study and a target and lay out the plan. Raises StudyError for whatever is wrong in either.

    `only` narrows studies, by name, for a run that is to do a part of them.
    """
    target = load_target(inventory)
    study = load_study(study_file, turns=target.of_kind.takes_turns)
    if study.name in only:
        study = study.narrowed(only[study.name])
    where = Results(results_root, target.name, study.name)
    claim = load_claim(where.claim)
    if claim:
        allowed = limits.stricter(target.spec["limits"], claim.get("limits") or limits.of_site({}))
        target = target.having(limits=allowed)
        claim = cast(Claim, {**as_declared(claim, target.spec), "limits": allowed})
    return Plan(study, target, where, claim, study_file.parent, inventory.parent)
