"""States in which kernels are compared: PaF structures, and file systems that were aged by use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fsage.api.study import Levels, State
from fsage.studies.aged import recipe as aged
from fsage.studies.aged.model import Way
from fsage.studies.paf import recipe as paf

NAME: Literal["kernels"] = "kernels"


class States(paf.States):
    """Block `states:` of a study: that of recipe `paf`, and ways of use."""

    recipe: Literal["kernels"] = NAME  # type: ignore[assignment]
    aged: Annotated[tuple[Way, ...], Levels(0)] = Field(
        (), description="ways of use, as of recipe `aged`; each layout is of a seed of its own"
    )


def expand(states: States) -> list[State]:
    """Return the states of recipe `paf`, and of each way of use the original, once a layout."""
    laid = [state._replace(nominal={**state.nominal, "recipe": NAME}) for state in paf.expand(states)]
    if isinstance(states.structures, int):
        layouts = states.structures
    else:
        layouts = states.structures.get(paf.DEFAULT, 1)
    used = [_aged(way, states.seed, number, layouts) for way in states.aged for number in range(1, layouts + 1)]
    return [*laid, *used]


def _aged(way: Way, first: int | None, number: int, layouts: int) -> State:
    seed = (first or 0) + number - 1 if layouts > 1 else first
    [original, *_] = aged.expand(aged.States.model_validate({"recipe": "aged", "ways": [way], "seed": seed}))
    name = f"{way}+{seed}" if layouts > 1 else way
    axes: dict[str, object] = {"way": way}
    nominal = {"recipe": NAME, "axes": axes, "structure": number}
    return State(name, name, axes, nominal, original.parts, layouts)
