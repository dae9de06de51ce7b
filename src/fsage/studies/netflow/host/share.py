"""What a phase's tasks have to do, cut up: equal shares fixed beforehand, or small ones for whoever is ready."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from fsage.studies.netflow.host.index import Entry
from fsage.studies.netflow.model import Assignment


def spans(size_bytes: int, whole_bytes: int, assignment: Assignment) -> list[list[int]]:
    """Begin and end of each share of the file, of whole `whole_bytes`."""
    if assignment.distribution == "asynchronous":
        step = assignment.segment_bytes
        return [[begin, min(begin + step, size_bytes)] for begin in range(0, size_bytes, step)]
    shares = equal(-(-size_bytes // whole_bytes), assignment.tasks)
    return [[begin * whole_bytes, min(end * whole_bytes, size_bytes)] for begin, end in shares]


def of_entries(entries: Sequence[Entry], assignment: Assignment) -> list[list[Entry]]:
    """Index entries, in order of their model, in equal shares or model by model."""
    if assignment.distribution == "asynchronous":
        return [list(share) for _, share in itertools.groupby(entries, key=lambda entry: entry[0])]
    return [list(entries[begin:end]) for begin, end in equal(len(entries), assignment.tasks)]


def equal(whole: int, parts: int) -> list[tuple[int, int]]:
    """So many shares of `whole` things in a row, none with more than one more than another, and none empty.

    >>> equal(10, 4)
    [(0, 2), (2, 5), (5, 7), (7, 10)]
    >>> equal(2, 4)
    [(0, 1), (1, 2)]
    """
    parts = min(whole, parts)
    return [(whole * number // parts, whole * (number + 1) // parts) for number in range(parts)]
