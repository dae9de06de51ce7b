"""What a report compares: states of a study with each other, and a study with another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from fsage.study.filters import levels_of_states, read_axis
from fsage.text.strict import Problem, Strict, block_of, noting, refuse, show, unknown_key

NAME = r"^[a-z][a-z0-9_]{0,31}$"
"""Of a study."""


class Headline(Strict):
    """What a report says first: `state` against `against`, each 'AA.BB' or the whole name of a state."""

    label: str = Field(description="how the report calls the comparison")
    state: str = Field(description="the state in question")
    against: str = Field(description="the state that it is compared with")
    measures: list[str] = Field([], description="rates that are compared, such as read_bw_mib_s; none: all rates")
    at: dict[str, object] = Field({}, description="levels of the cells' parameters; none: all levels")

    @property
    def pair(self) -> frozenset[str]:
        """Both states in fixed order: the reversed comparison is the same test."""
        return frozenset((self.state, self.against))

    def takes(self, params: Mapping[str, object], measure: str) -> bool:
        """Whether a cell of these parameters is compared in this rate."""
        meant = all(params.get(key) == level for key, level in self.at.items())
        return meant and (not self.measures or measure in self.measures)


@dataclass(frozen=True)
class Compare:
    """The study whose records stand beside ours, and the levels by which its states differ from ours."""

    study: str
    levels: dict[str, object]

    @classmethod
    def read(cls, block: Any, states: BaseModel) -> Compare:
        """Return what a block names; raises ValidationError for axes that the states do not have."""
        axes = [key for key in levels_of_states(states) if key != "notation"]
        problems: list[Problem] = []
        levels = {}
        study: Any = block_of(block).get("study")
        if not isinstance(study, str) or not re.fullmatch(NAME, study):
            problems.append(Problem(("study",), f"{show(study)} is not the name of a study"))
        for key, value in block.items():
            with noting(problems, key):
                if key != "study" and key not in axes:
                    raise ValueError(unknown_key(key, ["study", *axes]))
                if key != "study":
                    levels[key], *others = read_axis(type(states), key, value)
                    if others:
                        raise ValueError("has several levels: give one")
        if problems:
            refuse(problems)
        return cls(study, levels)
