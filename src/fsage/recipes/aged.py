"""File systems that were aged by use, beside replicas of their free space: how well a replica stands for its original.

Of each way there are three states on one target, one after the other: `original`, as use left it; `copied`, with the
same free space and large files in place of all others; `joined`, as much free space in one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fsage.agent.steps.age import Age
from fsage.agent.steps.keep_free_space import KeepFreeSpace
from fsage.agent.structure.step import Step
from fsage.agent.structure.uses import Way
from fsage.recipes import State
from fsage.text.strict import Levels, Problem, Strict, refuse

ORIGINAL, COPIED, JOINED = "original", "copied", "joined"


class States(Strict):
    """Block `states:` of a study: of each way to use it the original, its replica, and its free space in one run."""

    recipe: Literal["aged"] = "aged"
    ways: Annotated[tuple[Way, ...], Levels()] = Field(
        description="churn: files of many sizes come and go; logs: they grow in turns and the oldest go; packages: "
        "trees of small files are unpacked and removed"
    )
    fullness_percent: Annotated[int, Field(ge=1, le=90)] = Field(70, description="of the capacity in use at the end")
    written_percent: Annotated[int, Field(ge=1, le=2000)] = Field(
        200, description="of the capacity written on the way, at least what is in use in the end"
    )
    seed: Annotated[int, Field(ge=0)] | None = Field(None, description="of what is done; null: drawn once")
    reuse: Literal["nested"] = Field("nested", description="each replica is made of the very original before it")

    @model_validator(mode="after")
    def _it_becomes_full(self) -> States:
        if self.written_percent < self.fullness_percent:
            text = f"{self.written_percent}% written cannot fill {self.fullness_percent}%; it is at least as much"
            refuse([Problem(("written_percent",), text)])
        return self


def expand(states: States) -> list[State]:
    """Return the states: of each way the original, its replica, and its free space in one run."""
    return [state for way in states.ways for state in _of(states, way)]


def _of(states: States, way: Way) -> list[State]:
    age = Age(1, way, states.fullness_percent, states.written_percent, states.seed)
    copy = KeepFreeSpace(2, joined=False)
    parts = {ORIGINAL: (age,), COPIED: (age, copy), JOINED: (age, copy, KeepFreeSpace(3, joined=True))}
    return [_state(way, holes, steps) for holes, steps in parts.items()]


def _state(way: Way, holes: str, steps: tuple[Step, ...]) -> State:
    axes: dict[str, Any] = {"way": way, "holes": holes}
    nominal = {"recipe": "aged", "axes": axes, "reference": f"{way}.{JOINED}"}
    return State(f"{way}.{holes}", way, axes, nominal, steps)


def built(steps: Sequence[Step], capacity_bytes: int) -> str:
    """Return what `steps` made of a target, e.g. aged by churn to 70%, free space kept."""
    text = [
        f"aged by {step.way} to {step.percent}%"
        if isinstance(step, Age)
        else "free space in one run"
        if isinstance(step, KeepFreeSpace) and step.joined
        else "free space kept"
        for step in steps
    ]
    return ", ".join(text) or "empty"
