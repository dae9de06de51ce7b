"""What is free on a target's stores, and whether what was deleted is free again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Free(NamedTuple):
    """The free space of a store: what of it repeats exactly while nobody writes, and of Lustre used bytes by OST."""

    bytes: int
    counted: str | None = None
    osts: dict[str, int] | None = None


class Ost(NamedTuple):
    """One OST; `available_bytes` is what clients may still write, which leaves out the reserve of ldiskfs."""

    name: str
    number: int
    total_bytes: int
    used_bytes: int
    available_bytes: int


Wrong = Callable[[Sequence[Ost]], list[str]]
"""What is wrong with OSTs as they are now: sentences; none when all is as it should be."""


def nothing(now: Sequence[Ost]) -> list[str]:
    """Of what was deleted nothing is known."""
    return []
