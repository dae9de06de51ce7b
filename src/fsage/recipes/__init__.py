"""What a state is made of. A recipe is the module `recipe` of a study's folder, and has the folder's name.

What it offers: fsage.api.study.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence, Sized
from types import ModuleType
from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import AfterValidator, Field

from fsage.base import Json
from fsage.base.sizes import format_size
from fsage.model import plugins
from fsage.model.structure import BLOCK_BYTES, Step, read
from fsage.text.strict import Size

BEFORE_STEPS = ("tune_clients.yml", "scrub.yml")
"""The playbooks that each state begins with. Where a state is an image, the last one makes all of it."""


class State(NamedTuple):
    """What a target must be before it is measured.

    `name` is safe as a file name. States of one `population` share its populate and come one after the other,
    each reached by deleting more. `axes` are the levels that `only`, `exclude` and `compare` speak of;
    `nominal` goes into the records: of it `axes` are numbers for figures, `reference` names the state to compare with.
    `parts` are the steps at nominal file sizes (`steps()` gives those of a target). `layouts`: how many layouts of its
    structure the study has; where these are all alike this state is the only one of them.
    """

    name: str
    population: str
    axes: Json
    nominal: Json
    parts: tuple[Step, ...]
    layouts: int = 1

    @property
    def playbooks(self) -> tuple[str, ...]:
        """The playbooks that build it, in order: one for each step."""
        return *BEFORE_STEPS, *(part.PLAYBOOK for part in self.parts)

    @property
    def built_once(self) -> bool:
        """Whether it stands for several layouts, which are all alike."""
        return self.layouts > 1 and "structure" not in self.nominal

    @property
    def last_step(self) -> str:
        """The kind of the step that reaches it; "scrub" where there is none."""
        if self.parts:
            return self.parts[-1].kind
        return "scrub"

    def steps(self, scale_file_size: float, seed: int) -> list[Step]:
        """Return the steps of a request: file sizes scaled to whole 4 KiB, `seed` where none is named."""
        return [part.on_target(scale_file_size, seed) for part in self.parts]


def names() -> list[str]:
    """Return the names of the recipes there are."""
    return plugins.having("recipe")


def load(name: str) -> ModuleType:
    """Return the module of one recipe; `ValueError` with the available names if there is none of that name."""
    if name not in names():
        raise ValueError(f"unknown recipe {name!r}: available are {', '.join(names())}")
    return plugins.of_study(name, "recipe")


def built(name: str, steps: Sequence[Step], capacity_bytes: int) -> str:
    """What the steps of a recipe's state made of a target: in the recipe's notation, else the steps in words."""
    notation = getattr(load(name), "built", None)
    if notation:
        return str(notation(steps, capacity_bytes))
    return "; ".join(step.describe() for step in steps) or "empty"


class Study(Protocol):
    """What of a study (fsage.study) its states depend on."""

    states: Any
    mkfs: tuple[str, ...]

    @property
    def order_seed(self) -> int:
        """What a random order is drawn with."""

    @property
    def state_order(self) -> str:
        """As planned, or drawn."""

    @property
    def turns(self) -> bool:
        """Whether states are visited in turns."""

    def combinations(self, state: State) -> Sized:
        """Its planned cells in a state."""


def expand(study: Study) -> list[State]:
    """Return the states of a study in planned order, without those that its filters leave no cell."""
    planned = load(study.states.recipe).expand(study.states)
    states: list[State] = []
    for options in study.mkfs:
        states += [_made(state, options) for state in planned]
    if not study.mkfs:
        states = planned
    if study.turns:
        states = _in_turns(states)
    elif study.state_order == "drawn":
        states = sorted(states, key=lambda state: _drawn(study.order_seed, state.population))
    return [state for state in states if study.combinations(state)]


USUAL_MKFS = "default"


def _made(state: State, options: str) -> State:
    """A state on a file system that is made with options."""
    axes = {**state.axes, "mkfs": options}
    nominal = {**state.nominal, "axes": {**state.nominal.get("axes", {}), "mkfs": options}}
    if options == USUAL_MKFS:
        return state._replace(axes=axes, nominal=nominal)
    name = "-" + "_".join(re.findall(r"[\w.=,^]+", options))
    if nominal.get("reference"):
        nominal["reference"] += name
    step = read({"kind": "mkfs", "generation": 1, "options": options})
    named = state._replace(name=state.name + name, population=state.population + name)
    return named._replace(axes=axes, nominal=nominal, parts=(step, *state.parts))


def _drawn(seed: int, population: str) -> bytes:
    """The place of a population in a random order; populations that are added leave the others in theirs."""
    return hashlib.sha256(f"{seed}/{population}".encode()).digest()


def _in_turns(states: list[State]) -> list[State]:
    """Their first structures, then the second ones in the reverse order, and so on."""
    rounds: dict[int, list[State]] = {}
    for state in states:
        rounds.setdefault(state.nominal["structure"], []).append(state)
    in_turns: list[State] = []
    for number, turn in sorted(rounds.items()):
        if number % 2 == 0:
            turn.reverse()
        in_turns += turn
    return in_turns


def _in_blocks(size_bytes: int) -> int:
    if size_bytes % BLOCK_BYTES:
        raise ValueError(f"{format_size(size_bytes)} is no multiple of {format_size(BLOCK_BYTES)}, a block")
    return size_bytes


SizeInBlocks = Annotated[Size, AfterValidator(_in_blocks)]
"""A multiple of the block that file systems give files."""
Seed = Annotated[int, Field(ge=0, le=10**18)]
"""That of the first layout; others have the seeds after it, and all of them fit into 63 bits."""
