"""How the report of a recipe is told: what is particular to it. It is the module `report` of a study's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from fsage.analysis.headline import Comparison
from fsage.model import plugins
from fsage.report.answer import Answer, by_comparisons
from fsage.report.section import Data, Section
from fsage.study.study import Study


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
