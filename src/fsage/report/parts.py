"""What a report consists of: data, and sections made from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import pandas as pd

from fsage import dataset
from fsage.analysis import conditions, groups, truth
from fsage.analysis.comparisons import Comparison, at_largest_transfer, comparisons, of_state, stamp
from fsage.analysis.words import NONE
from fsage.base import Json
from fsage.figures import Figure, slug
from fsage.study.comparisons import Headline, means

MOST_CARDS = 4


@dataclass(frozen=True)
class Card:
    """`what` was compared, by how much (`size`), and in how many samples, how surely. `chance`: it may be chance."""

    what: str
    size: str
    detail: str
    chance: bool = False


@dataclass(frozen=True)
class Data:
    """What sections are made from: group summaries, the plan's states, and another study's summaries beside.

    `frame`: the records themselves. `compared_sizes`: nominal file sizes, in bytes, that the study wants to be
    compared with. `nominal`: what each state should be, by its name, as its recipe declares it. `headline`: the pairs
    of states that the study compares.
    """

    table: pd.DataFrame
    planned: list[str]
    comparison: pd.DataFrame
    compared_sizes: list[int]
    frame: pd.DataFrame
    nominal: Mapping[str, Json] = field(default_factory=dict)
    headline: Sequence[Headline] = ()

    @cached_property
    def samples(self) -> pd.DataFrame:
        """The valid planned records."""
        return groups.samples(self.frame)

    @cached_property
    def labelled(self) -> pd.DataFrame:
        """The samples with what keeps them apart (fsage.analysis.conditions)."""
        return conditions.labelled(self.samples)

    @cached_property
    def usual(self) -> pd.DataFrame:
        """The samples under the usual conditions, their states named without seeds."""
        return self.labelled[self.labelled["main"]]

    @cached_property
    def at_largest_transfer(self) -> pd.DataFrame:
        """The usual samples at the largest transfer size, where there is one."""
        return at_largest_transfer(self.labelled)

    @cached_property
    def measures(self) -> list[str]:
        """The columns of `frame` that hold a rate (higher is better), in their order."""
        return groups.measures(self.frame)

    def medians(self, names: list[str]) -> pd.DataFrame:
        """As `table`, a row for each group and each column of `names`, compared with nothing."""
        return groups.medians(self.labelled, names)

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """The headline's pairs in each measure, at the largest transfer: one family of tests."""
        return comparisons(self.at_largest_transfer, self.headline)

    @property
    def cards(self) -> list[Card]:
        """A card for each of the first comparisons."""
        return cards_of(self.comparisons)

    @property
    def results(self) -> list[conditions.Result]:
        """What was computed and has a checksum: by phase the cells of each checksum."""
        return conditions.results(self.frame)

    @property
    def disagreements(self) -> list[str]:
        """A sentence for each result that is not the same in all cells."""
        return conditions.disagreements(self.frame)

    @property
    def has_places(self) -> bool:
        """Whether what a device costs may depend on the place: not of a modelled device, unless it has tracks."""
        return "modelled" not in stamp(self.frame) or truth.planted(self.frame) is not None

    @cached_property
    def notes(self) -> dict[str, Json]:
        """State -> what its steps noted, of the planned ones that have any, in planned order."""
        noted = dataset.notes(self.frame)
        return {state: noted[state] for state in self.planned if state in noted}

    def of_state(self, rows: pd.DataFrame, state: str) -> pd.DataFrame:
        """Rows of a state, named in full or, where that is one state, in part."""
        return of_state(rows, state)

    def nominal_of(self, state: str) -> Json:
        """What the recipe declares of a state, by its whole name or as a headline calls it; {} of one not planned."""
        return next((values for name, values in self.nominal.items() if means(state, name)), {})

    def axes_of(self, state: str) -> Json:
        """The state's levels on the axes of its recipe; {} of one not planned."""
        return self.nominal_of(state).get("axes", {})


def cards_of(compared: Sequence[Comparison]) -> list[Card]:
    """A card a comparison, at most MOST_CARDS."""
    return [
        Card(comparison.title, comparison.signed, comparison.detail, not comparison.finding.sure)
        for comparison in compared[:MOST_CARDS]
    ]


@dataclass(frozen=True)
class Section:
    """A heading, what to see, the figures that show it, and sentences on what could not be shown.

    `table`: rows of text, the first one the headings; these alone are not shown. `wide`: whether the figures need more
    than a phone's width. `front`: how many of the figures are seen at once; the others are folded. `answer`: sentences
    that hold without any figure.
    """

    NONE: ClassVar[str] = NONE
    """In a table, for what is not known."""

    title: str
    text: str
    figures: Sequence[Figure] = ()
    wide: bool = False
    warnings: list[str] = field(default_factory=list)
    table: list[list[str]] = field(default_factory=list)
    front: int = 0
    answer: str = ""

    @property
    def anchor(self) -> str:
        """The title as part of an address."""
        return slug(self.title)


def figures_of(sections: Sequence[Section]) -> list[Figure]:
    """All of them, in the order of the page."""
    figures: list[Figure] = []
    for section in sections:
        figures += section.figures
    return figures
