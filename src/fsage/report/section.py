"""What passes between the report and those who draw its sections."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Data:
    """What figures are drawn from: group summaries, the plan's states, and another study's summaries beside.

    `compared_sizes`: nominal file sizes, in bytes, that the study wants to be compared with.
    """

    table: pd.DataFrame
    planned: list[str]
    comparison: pd.DataFrame
    compared_sizes: list[int]
    stamp: str


@dataclass(frozen=True)
class Section:
    """A heading, what to see, and the panels that show it."""

    title: str
    text: str
    panels: list[str]
    wide: bool = False
