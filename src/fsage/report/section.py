"""What passes between the report and those who say what its sections hold.

What is particular to the report of a recipe is its View, in the module `report` of a study's folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from fsage.analysis.comparisons import Comparison
from fsage.figures import Figure, slug
from fsage.model import plugins
from fsage.model.typed import Json
from fsage.report.answer import Answer, by_comparisons
from fsage.study.study import Study, means


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


@dataclass(frozen=True)
class View:
    """`sections`: in their order; each takes the data and shows what these can fill, or nothing.

    `reference`: what a group is compared with, in words. `answer`: what stands on top; none: nothing can be said.
    `published`: sentences on what was published beside it. `headings`: what columns of the table of states are called
    in the recipe's own words.
    """

    sections: tuple[Callable[[Data], Section | None], ...] = ()
    reference: str = "the state that its recipe names as reference"
    answer: Callable[[Data, Study], Answer | None] = by_comparisons
    published: Callable[[Data, Sequence[Comparison]], list[str]] = lambda data, compared: []
    headings: Mapping[str, str] = field(default_factory=dict)


def view_of(frame: pd.DataFrame) -> View:
    """VIEW of the report of the records' recipe; a recipe without one has the tables only."""
    recipe = next(iter(frame["recipe"].dropna()), None)
    if recipe not in plugins.having("report"):  # the name is a record's: no other module is taken by it
        return View()
    view: View = plugins.of_study(recipe, "report").VIEW
    return view
