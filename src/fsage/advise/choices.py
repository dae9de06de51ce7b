"""What can be chosen in a study, and which measurements speak of a file of some size under each choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Parts = Mapping[str, float]
"""State -> the share of the bytes whose time its samples give; the shares make 1. Empty: not measured."""


@dataclass(frozen=True)
class Choice:
    """One choice. `of_size(bytes)` names the states whose time for a byte is that of a file of this size.

    A MiB costs `once_s` and, `times` over, what those states took for it. `says`: words on it for people.
    """

    name: str
    of_size: Callable[[int], Parts]
    times: float = 1.0
    once_s: float = 0.0
    says: str = ""


@dataclass(frozen=True)
class Options:
    """The choices of a study, the default one among them; `absent`: those that cannot be had or told of, and why.

    `file_bytes`: what was measured, a file of this size. `not_covered`: why no choice is told for some sizes, in words.
    `notes`: sentences on what the distribution or the choices mean here.
    """

    kind: str
    default: str
    file_bytes: int
    choices: list[Choice]
    absent: dict[str, str] = field(default_factory=dict)
    assumes: str = ""
    not_covered: str = ""
    notes: list[str] = field(default_factory=list)
