"""What passes between the report and those who draw its sections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:  # what draws takes a second to import, and the terminal needs no figures
    from fsage.figures import Panel


@dataclass(frozen=True)
class Data:
    """What figures are drawn from: group summaries, the plan's states, and another study's summaries beside.

    `frame`: the records themselves. `compared_sizes`: nominal file sizes, in bytes, that the study wants to be
    compared with.
    """

    table: pd.DataFrame
    planned: list[str]
    comparison: pd.DataFrame
    compared_sizes: list[int]
    stamp: str
    frame: pd.DataFrame


@dataclass(frozen=True)
class Section:
    """A heading, what to see, the panels that show it, and sentences on what could not be shown.

    `table`: rows of text, the first one the headings.
    """

    title: str
    text: str
    panels: list[Panel]
    wide: bool = False
    warnings: list[str] = field(default_factory=list)
    table: list[list[str]] = field(default_factory=list)
