"""Layouts: which measured one a file of some size is alike, by the map of its stripes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from fsage.api.model import Segment, round_size
from fsage.api.report import AdviceRequest, Choice, Measured, Options

from .model import object_bytes
from .recipe import States
from .report.layouts import stripes_of, words_of

BY_MAP = ("striped_file", "netflow")
"""Workloads whose files are laid out by the map of stripes at any size; others tell of the file they used alone."""


def options(measured: Measured, declared: States, request: AdviceRequest) -> Options:
    """A choice for each pattern that this target has and that was measured. Raises ValueError if there is none.

    What differs by less than the margin counts as alike: how evenly a file is shared out, and where its watermarks lie.
    """
    layouts = stripes_of({state: measured.notes.get(state, {}) for state in measured.seconds_per_mib})
    if not layouts:
        raise ValueError("no record names the layout that it was measured in")
    file_bytes = next(iter(layouts.values()))[-1].end_bytes
    nominal = declared.patterns()[declared.default].file_bytes
    workload = measured.rows["workload"].iloc[0]
    if workload in BY_MAP:
        assumes = (
            f"one file of {round_size(file_bytes)} was measured in each layout. A file of another size counts as the "
            "measured one whose stripes are shared out alike, with the same time for a byte. Sizes are of this "
            f"target, whose factor makes {round_size(file_bytes)} of {round_size(nominal)}"
        )
        not_covered = (
            "by the map their stripes are shared out like those of no measured layout, or in objects that differ by "
            f"more than {100 * request.margin:g}%"
        )
    else:
        assumes = f"nothing: {workload} was measured on one file of {round_size(file_bytes)} in each layout"
        not_covered = f"{workload} tells of a file of {round_size(file_bytes)} alone"
    choices = []
    for state, layout in layouts.items():
        if workload in BY_MAP:
            of_size = partial(_of_size, state, layouts, request.margin)
        else:
            of_size = partial(_own, state, file_bytes)
        choices.append(Choice(state, of_size, says=_words(layout)))
    return Options("layout", declared.default, file_bytes, choices, assumes=assumes, not_covered=not_covered)


def _own(state: str, file_bytes: int, size_bytes: int) -> dict[str, float]:
    if size_bytes == file_bytes:
        return {state: 1.0}
    return {}


def _of_size(state: str, layouts: Mapping[str, list[Segment]], margin: float, size_bytes: int) -> dict[str, float]:
    """The state itself, else the first in whose layout a file is shared out as one of this size is in this layout."""
    if size_bytes == layouts[state][-1].end_bytes:
        return {state: 1.0}
    reached = [layout for layout in layouts[state] if layout.start_bytes < size_bytes]
    cut = [*reached[:-1], reached[-1]._replace(end_bytes=size_bytes)]
    if any(_uneven(part) > margin for part in cut):
        return {}
    for other in (state, *layouts):
        if _alike(cut, layouts[other], margin):
            return {other: 1.0}
    return {}


def _uneven(segment: Segment) -> float:
    """By which share its largest object is above the mean: so much longer may its OST take than if all were even."""
    return max(object_bytes([segment])) * segment.stripes / segment.length_bytes - 1


def _alike(segments: list[Segment], other: list[Segment], margin: float) -> bool:
    """Whether two files have the same stripes, and their watermarks at the same share of them."""
    whole = segments[-1].end_bytes
    rest = other[-1].end_bytes
    if len(segments) != len(other):
        return False
    for a, b in zip(segments, other, strict=True):
        if (a.stripes, a.stripe_bytes) != (b.stripes, b.stripe_bytes):
            return False
        if abs(a.end_bytes / whole - b.end_bytes / rest) > margin:
            return False
    return True


def _words(layout: list[Segment]) -> str:
    """'4 x 1 MiB to 80 MiB, then 8 x 1 MiB'."""
    parts = [f"{words_of(segment)} to {round_size(segment.end_bytes)}" for segment in layout]
    return ", then ".join(parts).rpartition(" to ")[0]
