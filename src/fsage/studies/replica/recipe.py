"""Replicas: the free space of other file systems, block by block, beside as much of it in one run, and an empty target.

A layout is a saved text or whatever else `fsage evidence` reads, in the folder `layouts` beside the studies. It is read
when a state is built, not when the study is.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsage.api.study import Levels, Problems, Seed, Spelled, State, Strict

from .model import Replica

COPIED = "copied"
JOINED = "joined"
EMPTY = "empty"
Layout = Annotated[
    str, Spelled(r"[A-Za-z0-9][A-Za-z0-9_=-]{0,63}(\.[A-Za-z0-9]{1,8}){0,3}", "the name of a file in layouts/")
]


class States(Strict):
    """Block `states:` of a study: of each layout the replica and as much free space in one run; and an empty target."""

    recipe: Literal["replica"] = "replica"
    layouts: Annotated[tuple[Layout, ...], Levels()] = Field(
        description="saved texts in the folder layouts/ beside the study, packed by gzip or zstd or not"
    )
    structures: Annotated[int, Field(ge=1, le=99)] = Field(
        1, description="number of samples of a layout larger than the target; intervals then cover samples"
    )
    window_groups: Annotated[int, Field(ge=1, le=4096)] = Field(
        16, description="how many neighbouring groups one window of a sample has"
    )
    empty: bool = Field(True, description="measure the empty target too")
    seed: Seed | None = Field(None, description="seed of the samples; null: drawn once and recorded")
    reuse: Literal["nested", "fresh"] = Field(
        "nested", description="without effect: no state is reached from another one"
    )

    @model_validator(mode="after")
    def _names_differ(self) -> States:
        names = list(map(name_of, self.layouts))
        text = "without what follows its first dot it is another layout's name, or 'empty'; call the file otherwise"
        with Problems() as wrong:
            for number, name in enumerate(names):
                if name in names[:number] or name == EMPTY:
                    wrong.add(("layouts", number), text)
        return self


def name_of(layout: str) -> str:
    """What states are called after a layout: ost0012.txt.gz is ost0012."""
    return layout.split(".")[0]


def expand(states: States) -> list[State]:
    """Return the states: empty, then of each layout and sample the free space in one run, and the replica."""
    made = [_empty(states.structures)] if states.empty else []
    for layout in states.layouts:
        for draw in range(1, states.structures + 1):
            made += [_state(states, layout, draw, joined) for joined in (True, False)]
    return made


def _empty(layouts: int) -> State:
    nominal = {"recipe": "replica", "fullness_percent": 0, "axes": {"layout": EMPTY, "holes": EMPTY}}
    return State(EMPTY, EMPTY, {"layout": EMPTY, "holes": EMPTY}, nominal, (), layouts)


def _state(states: States, layout: str, draw: int, joined: bool) -> State:
    of = name_of(layout)
    holes = JOINED if joined else COPIED
    axes: dict[str, object] = {"layout": of, "holes": holes}
    nominal: dict[str, object] = {"recipe": "replica", "axes": axes}
    sample = group = ""
    if states.structures > 1:
        nominal["structure"] = draw
        group = f"@{states.window_groups}"
        sample = f"+{draw}{group}"
    name = f"{of}.{holes}{sample}"
    nominal["reference"] = f"{of}.{JOINED}{group}"  # as reports name all samples together
    step = Replica(1, layout, joined, draw, states.window_groups, states.seed)
    return State(name, name, {**axes, "structure": draw}, nominal, (step,), states.structures)
