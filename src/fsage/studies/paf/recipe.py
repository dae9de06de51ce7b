"""PaF: populate a share of the capacity with files, then delete a share of these (notation.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, PrivateAttr, model_validator

from fsage.api.model import Step, format_size
from fsage.api.study import Levels, OrBlock, Problems, Seed, Size, SizeInBlocks, State, Strict, unknown_value

from .model import FILES_AT_ONCE, METHOD, REQUEST_BYTES, Filler, Fragment, Method, Populate
from .notation import Generation, PaF, parse

Capacity = Annotated[int, Field(ge=1, le=99, strict=True)]
Fragmentation = Annotated[int, Field(ge=0, le=99, strict=True)]
AXES = ("capacity", "fragmentation", "file_size")
DEFAULT = "default"
Count = Annotated[int, Field(ge=1, le=99, strict=True)]
FilesAtOnce = Annotated[int, Field(ge=1, le=1024, strict=True)]

METHOD_HELP = "how files get their blocks: fallocate; write: past the cache; buffered: through it"
REQUEST_HELP = "bytes of one request for blocks, or of one write; the target's scale does not apply"
AT_ONCE_HELP = "files that grow at once on each store, in turns, one request each"


def _structure(value: object) -> PaF:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a structure; write it as text, such as 'PAF:70.30,20.40@264M'")
    return replace(parse(value), kblocks=None)  # the capacity is measured, whatever it was elsewhere


Structure = Annotated[PaF, PlainValidator(_structure, json_schema_input_type=str)]


class States(Strict):
    """Block `states:` of a study: one generation along three axes, or explicit structures in `notation`."""

    recipe: Literal["paf"] = "paf"
    capacity: Annotated[tuple[Capacity, ...], Levels()] = Field(
        (), description="AA: files worth AA% of the empty target are added"
    )
    fragmentation: Annotated[tuple[Fragmentation, ...], Levels()] = Field(
        (), description="BB: BB% of them are then deleted, drawn by the seed"
    )
    file_size: Annotated[tuple[Size, ...], Levels()] = Field(
        (), description="nominal size of a file; the target's scale applies"
    )
    seed: Seed | None = Field(None, description="seed of the files; null: drawn once and recorded")
    reuse: Literal["nested", "fresh"] = Field(
        "nested",
        description="nested: a larger BB is reached from a smaller one; fresh: each state is populated anew",
    )
    filler: Annotated[tuple[Method, ...], Levels()] = Field((METHOD,), description=METHOD_HELP)
    request_size: Annotated[tuple[SizeInBlocks, ...], Levels()] = Field((REQUEST_BYTES,), description=REQUEST_HELP)
    files_at_once: Annotated[tuple[FilesAtOnce, ...], Levels()] = Field((FILES_AT_ONCE,), description=AT_ONCE_HELP)
    notation: Annotated[tuple[Structure, ...], Levels(least=0)] = Field(
        (), description="structures instead of the axes"
    )
    structures: Annotated[Count | dict[str, Count], OrBlock()] = Field(
        1,
        description="how many layouts each state has, each of a seed of its own; or by state, and `default`. Where "
        "nothing is deleted all seeds give the same layout, so it is built once",
    )
    _alike_once: bool = PrivateAttr(True)

    @model_validator(mode="after")
    def _keys_fit(self) -> States:
        with Problems() as wrong:
            unseeded = not self.notation or any(structure.seed is None for structure in self.notation)
            if max(self._counts.values(), default=1) > 1 and self.seed is None and unseeded:
                wrong.add("structures", "more than one needs a 'seed' to count from, for seeds name the states")
            for axis in AXES:
                if bool(getattr(self, axis)) == bool(self.notation):
                    text = "goes without 'notation', which names whole structures" if self.notation else "is missing"
                    wrong.add(axis, text)
            if isinstance(self.structures, dict) and not wrong.found:
                names = [DEFAULT, *dict.fromkeys(map(_generations, _structures(self)))]
                for name in self.structures:
                    if name not in names:
                        wrong.add(("structures", name), unknown_value(name, names))
        return self

    @property
    def _counts(self) -> dict[str, int]:
        if isinstance(self.structures, dict):
            return self.structures
        return {DEFAULT: self.structures}

    def layouts_of(self, structure: PaF) -> int:
        """How many layouts of a structure are wanted."""
        return self._counts.get(_generations(structure), self._counts.get(DEFAULT, 1))

    def built(self, structure: PaF) -> int:
        """How many of them are built: one where they are all alike."""
        of_seed = any(generation.fragmentation_percent for generation in structure.generations)
        if of_seed or not self._alike_once:
            return self.layouts_of(structure)
        return 1

    def visit_each(self) -> None:
        """Build layouts that are alike as often as the others, so that states are visited in turns."""
        self._alike_once = False


def _generations(structure: PaF) -> str:
    return ",".join(map(str, structure.generations))


def _structures(states: States) -> Sequence[PaF]:
    return states.notation or [
        PaF((Generation(capacity, fragmentation),), None, (size_bytes,))
        for size_bytes in states.file_size
        for capacity in sorted(states.capacity)
        for fragmentation in sorted(states.fragmentation)
    ]


def expand(states: States) -> list[State]:
    """Return the states of each structure; within a population in order of BB, so that each deletes more."""
    fillers = [Filler(*each) for each in product(states.filler, states.request_size, states.files_at_once)]
    made = [
        _state(structure, states, number, filler, swept=len(fillers) > 1)
        for filler in fillers
        for structure in _structures(states)
        for number in range(1, states.built(structure) + 1)
    ]
    if len(fillers) > 1:
        made = _against_equally_full(made)
    # As written, but the states of one population together.
    order: dict[str, int] = {}
    for state in made:
        order.setdefault(state.population, len(order))

    def place(state: State) -> tuple[int, int]:
        last = state.axes["notation"].generations[-1]
        return order[state.population], last.fragmentation_percent

    return sorted(made, key=place)


def _state(structure: PaF, states: States, repetition: int, filler: Filler, swept: bool) -> State:
    """Return the state of a structure, or of its `repetition`-th one with a seed of its own.

    Where a study has several ways of laying filler (`swept`), the state is named after its own too.
    """
    several = states.built(structure) > 1
    if several:
        first = states.seed if structure.seed is None else structure.seed
        structure = replace(structure, seed=(first or 0) + repetition - 1)
    generations = structure.generations
    sizes = ",".join(map(format_size, structure.sizes_bytes))
    seed = "" if structure.seed is None else f"+{structure.seed}"
    sizes += f"-{filler}" if swept else ""
    name = f"{_generations(structure)}{seed}@{sizes}"
    grown = [*map(str, generations[:-1]), f"{generations[-1].capacity_percent:02d}"]
    population = f"{','.join(grown)}{seed}@{sizes}" if states.reuse == "nested" else name

    axes: dict[str, object] = {"notation": structure}
    if len(generations) == len(structure.sizes_bytes) == 1:
        axes |= {
            "capacity": generations[0].capacity_percent,
            "fragmentation": generations[0].fragmentation_percent,
            "file_size": structure.sizes_bytes[0],
        }
    axes |= filler._asdict()
    steps: list[Step] = []
    nominal_generations = []
    for number, generation in enumerate(generations):
        file_bytes = structure.sizes_of(number)
        capacity = generation.capacity_percent
        fragmentation = generation.fragmentation_percent
        steps.append(Populate(number + 1, capacity, file_bytes, structure.seed, *filler))
        if fragmentation:
            steps.append(Fragment(number + 1, fragmentation, structure.seed))
        percents = {"capacity_percent": capacity, "fragmentation_percent": fragmentation}
        nominal_generations.append({**percents, "file_sizes_bytes": list(file_bytes)})
    nominal = {
        "recipe": "paf",
        "notation": str(structure),
        # Of a structure that lies on no plane of Series 1, these three say nothing: see `generations`.
        "capacity_percent": axes.get("capacity"),
        "fragmentation_percent": axes.get("fragmentation"),
        "file_size_bytes": axes.get("file_size"),
        "fullness_percent": structure.fullness_percent,
        "axes": filler.nominal(),
        "generations": nominal_generations,
    }
    if several:
        nominal["structure"] = repetition
    return State(name, population, axes, nominal, tuple(steps), states.layouts_of(structure))


def _against_equally_full(made: list[State]) -> list[State]:
    """Let each fragmented state name the unfragmented one that is equally full and of filler laid alike, if any."""
    whole = {_laid(state): state.name for state in made if state.axes.get("fragmentation") == 0}
    for number, state in enumerate(made):
        equal = whole.get(_laid(state))
        if equal not in (None, state.name):
            made[number] = state._replace(nominal={**state.nominal, "reference": equal})
    return made


def _laid(state: State) -> tuple[float, str]:
    """How full a state is, and how its filler was laid."""
    return state.nominal["fullness_percent"], str(state.nominal["axes"])


def built(steps: Sequence[Step], capacity_bytes: int) -> str:
    """Return the structure that `steps` built on a target of that capacity, e.g. PAF:80.50:67005@33M<16337756."""
    populates = [step for step in steps if isinstance(step, Populate)]
    gone = {step.generation: step.percent for step in steps if isinstance(step, Fragment)}
    generations = tuple(Generation(step.percent, gone.get(step.generation, 0)) for step in populates)
    sizes = [step.file_bytes for step in populates]
    if len(set(sizes)) == 1:
        each = sizes[0]
    else:
        each = tuple(size for (size,) in sizes)
    return str(PaF(generations, populates[0].seed, each, capacity_bytes // 1024))
