"""What passes between the report and those who say what its sections hold."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from fsage.figures import Figure, slug
from fsage.model.typed import Json
from fsage.study.study import means


@dataclass(frozen=True)
class Data:
    """What sections are made from: group summaries, the plan's states, and another study's summaries beside.

    `frame`: the records themselves. `compared_sizes`: nominal file sizes, in bytes, that the study wants to be
    compared with. `nominal`: what each state should be, by its name, as its recipe declares it.
    """

    table: pd.DataFrame
    planned: list[str]
    comparison: pd.DataFrame
    compared_sizes: list[int]
    frame: pd.DataFrame
    nominal: Mapping[str, Json] = field(default_factory=dict)

    @cached_property
    def notes(self) -> dict[str, Json]:
        """State -> what its steps noted, of the planned ones that have any, in planned order."""
        noted = self.frame.dropna(subset="notes").groupby("state")["notes"].first().map(json.loads)
        return {state: noted[state] for state in self.planned if state in noted.index}

    def nominal_of(self, state: str) -> Json:
        """What the recipe declares of a state, by its whole name or as a headline calls it; {} of one not planned."""
        return next((values for name, values in self.nominal.items() if means(state, name)), {})

    def axes_of(self, state: str) -> Json:
        """The state's levels on the axes of its recipe; {} of one not planned."""
        return self.nominal_of(state).get("axes", {})


@dataclass(frozen=True)
class Section:
    """A heading, what to see, the figures that show it, and sentences on what could not be shown.

    `table`: rows of text, the first one the headings. `wide`: whether the figures need more than a phone's width.
    `front`: how many of the figures are seen at once; the others are folded. `answer`: sentences that hold without any
    figure.
    """

    title: str
    text: str
    figures: Sequence[Figure]
    wide: bool = False
    warnings: list[str] = field(default_factory=list)
    table: list[list[str]] = field(default_factory=list)
    front: int = 0
    answer: str = ""

    @property
    def anchor(self) -> str:
        """The title as part of an address."""
        return slug(self.title)
