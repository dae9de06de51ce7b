"""The free space of a target's stores, and whether deleted files have freed theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Free(NamedTuple):
    """The free space of a store.

    `counted`: counts that repeat exactly while nobody writes, as text; None where none do. `osts`: on Lustre the used
    bytes of each OST.
    """

    bytes: int
    counted: str | None = None
    osts: dict[str, int] | None = None


class Ost(NamedTuple):
    """One OST; `available_bytes` is what clients may still write, without the reserve of ldiskfs."""

    name: str
    number: int
    total_bytes: int
    used_bytes: int
    available_bytes: int


Wrong = Callable[[Sequence[Ost]], list[str]]
"""Gives a sentence for each OST that does not hold what it should; none when all do."""


def nothing(now: Sequence[Ost]) -> list[str]:
    """Find nothing wrong: for callers that do not know what the OSTs should hold."""
    return []
