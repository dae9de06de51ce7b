"""Full file systems whose free space lies in holes of one size at equal distances, with or without one larger run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsage.api.model import BLOCK_BYTES, format_size
from fsage.api.study import Levels, Problems, Seed, Size, SizeInBlocks, State, Strict

from .model import PlantFreeSpace

Percent = Annotated[float, Field(gt=0, lt=100)]


class States(Strict):
    """Block `states:` of a study: every fullness with every size of holes, and with the run at every place."""

    recipe: Literal["allocator"] = "allocator"
    fullness: Annotated[tuple[Percent, ...], Levels()] = Field(description="share of the capacity that is in use")
    hole_size: Annotated[tuple[SizeInBlocks, ...], Levels()] = Field(description="size of the free extents")
    run_size: Size | None = Field(None, description="size of one larger free extent; null: there is none")
    run_position: Annotated[tuple[Percent, ...], Levels()] = Field(
        (50.0,), description="where the run begins, in percent of the device; without run_size of no effect"
    )
    seed: Seed | None = Field(None, description="without effect: nothing is drawn")
    reuse: Literal["nested", "fresh"] = Field(
        "nested", description="without effect: no state is reached from another one"
    )

    @model_validator(mode="after")
    def _the_run_is_the_largest(self) -> States:
        with Problems() as wrong:
            if self.run_size is not None and (self.run_size % BLOCK_BYTES or self.run_size <= max(self.hole_size)):
                text = f"{format_size(self.run_size)} is not larger than a hole, or no multiple of 4K, a block"
                wrong.add("run_size", text)
        return self


def expand(states: States) -> list[State]:
    """Return the states: the emptiest first."""
    places = states.run_position if states.run_size else (None,)
    return [
        _state(states, fullness, hole_bytes, place)
        for fullness in states.fullness
        for hole_bytes in states.hole_size
        for place in places
    ]


def _state(states: States, fullness: float, hole_bytes: int, place: float | None) -> State:
    axes: dict[str, object] = {"fullness": fullness, "hole_size": hole_bytes}
    numbers: dict[str, object] = {"fullness_percent": fullness, "hole_bytes": hole_bytes}
    name = f"{fullness:.15g}.{format_size(hole_bytes)}"
    if place is not None:
        axes["run_position"] = place
        numbers |= {"run_bytes": states.run_size, "run_percent": place}
        name += f".{place:.15g}"
    nominal = {"recipe": "allocator", "fullness_percent": fullness, "axes": numbers}
    step = PlantFreeSpace(1, fullness, hole_bytes, states.run_size or 0, place or 0.0)
    return State(name, name, axes, nominal, (step,))
