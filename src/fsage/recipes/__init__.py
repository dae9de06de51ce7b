"""What a state is made of. A recipe is the module `recipe` of a study's folder, and has the folder's name.

It offers
- `States`: typed model of a study's block `states:`, with `recipe: Literal[<name>]`, `seed` and `reuse`;
- `expand(states) -> list[State]`: the states in the order in which they are built;
- `built(steps, capacity_bytes) -> str`: canonical notation of what was really built, seed and capacity in it.
"""

from __future__ import annotations

from collections.abc import Sized
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from fsage.model import plugins
from fsage.model.structure import Step
from fsage.model.typed import Json

BLOCK_BYTES = 4096


class State(NamedTuple):
    """What a target must be before it is measured.

    `name` is safe as a file name. States of one `population` share its populate and come one after the other,
    each reached by deleting more. `axes` are the levels that `only`, `exclude` and `compare` speak of;
    `nominal` goes into the records: of it `axes` are numbers for figures, `reference` names the state to compare with.
    `parts` are the steps at nominal file sizes (`steps()` gives those of a target).
    """

    name: str
    population: str
    axes: Json
    nominal: Json
    parts: tuple[Step, ...]

    @property
    def playbooks(self) -> tuple[str, ...]:
        """The playbooks that build it, in order: one for each step."""
        return "tune_clients.yml", "scrub.yml", *(part.PLAYBOOK for part in self.parts)

    @property
    def last_step(self) -> str:
        """The kind of the step that reaches it; "scrub" where there is none."""
        return self.parts[-1].kind if self.parts else "scrub"

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


class Study(Protocol):
    """What of a study (fsage.study.study) its states depend on."""

    states: Any

    @property
    def turns(self) -> bool:
        """Whether states are visited in turns."""

    def combinations(self, state: State) -> Sized:
        """Its planned cells in a state."""


def expand(study: Study) -> list[State]:
    """Return the states of a study in planned order, without those that its filters leave no cell."""
    states = load(study.states.recipe).expand(study.states)
    return [state for state in (_in_turns(states) if study.turns else states) if study.combinations(state)]


def _in_turns(states: list[State]) -> list[State]:
    """Their first structures, then the second ones in the reverse order, and so on."""
    rounds: dict[int, list[State]] = {}
    for state in states:
        rounds.setdefault(state.nominal["structure"], []).append(state)
    return [state for number, turn in sorted(rounds.items()) for state in (turn if number % 2 else turn[::-1])]
