"""Preallocation sizes: each over the counts of deleted files in which all sizes were measured."""

from __future__ import annotations

from functools import partial

from fsage.api.model import format_size, round_size
from fsage.api.report import AdviceRequest, Choice, Measured, Options, words

from .recipe import States


def options(measured: Measured, declared: States, request: AdviceRequest) -> Options:
    """A choice for each size: a life in which the counts of deleted files that were measured are equally likely.

    The clean target is left out unless it is requested. Raises ValueError where no count was measured for all sizes.
    """
    states: dict[int, dict[int, str]] = {}
    for state in measured.seconds_per_mib:
        axes = measured.axes[state]
        of_size = states.setdefault(axes["preallocation_bytes"], {})
        if axes["deleted"] or "deleted" in measured.at:
            of_size[axes["deleted"]] = state
    every = set().union(*states.values())
    levels = sorted(every.intersection(*states.values()))
    if not levels:
        counts = [f"{format_size(size)}: {', '.join(map(str, sorted(by)))}" for size, by in states.items()]
        raise ValueError(
            f"no count of deleted files was measured with every size of preallocation ({'; '.join(counts)})"
        )
    largest = max(states)
    parts = {}
    for size, by in sorted(states.items()):
        parts[size] = dict.fromkeys([by[level] for level in levels], 1 / len(levels))
    small = {}
    if request.files:
        small = {size: request.files.share_of_files(size) for size in parts}
    notes = words.sentences("prealloc/levels", levels=levels, left=sorted(every - set(levels)), small=small)
    return Options(
        "preallocation",
        format_size(min(parts)),
        measured.moved_bytes,
        [Choice(format_size(size), partial(_of_size, largest, part)) for size, part in parts.items()],
        assumes=(
            f"one file of {round_size(measured.moved_bytes)} was measured: others count at the same time for a byte"
        ),
        not_covered=f"they are smaller than a preallocation of {format_size(largest)}, and are contiguous anyhow",
        notes=notes,
    )


def _of_size(largest: int, parts: dict[str, float], size_bytes: int) -> dict[str, float]:
    if size_bytes >= largest:
        return parts
    return {}
