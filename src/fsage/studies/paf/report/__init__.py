"""What fullness costs and, apart from it, fragmentation; or what the size of fragments does, or of what is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pandas as pd

from fsage.analysis.comparisons import at_largest_transfer, of_state
from fsage.report.parts import SENTENCES, Answer, Data, Named, Section, View, by_comparisons, plain
from fsage.studies.paf.report.curves import loss, metadata, over_capacity, over_fragmentation
from fsage.studies.paf.report.fragments import file_sizes, filler, largest, several_fillers, sizes_told
from fsage.studies.paf.report.fullness import (
    EQUAL_WITHIN_POINTS,
    amount,
    at_equal_fullness,
    position,
    several_amounts,
    told,
)
from fsage.studies.paf.report.rows import axes_of, plane
from fsage.studies.paf.report.truth import planted_told, published, truth
from fsage.study.study import Study

Draw = Callable[[Data], Section | None]
CODES = (
    "State names are AA.BB. Files worth AA% of the empty file system were added, then BB% of them were deleted. "
    "Real fullness is what is left in use: 80.50 is about 40% full."
)
HALF = 50


def answer(data: Data, study: Study) -> Answer:
    """A sentence for each pair of states that the study compares.

    Before them, or in their place: what was recovered of planted values, what another size of files does, or what
    measuring other shares of the target shows.
    """
    named = partial(decoded, data, _equally_full(data, study))
    by_state = by_comparisons(data, study, named, CODES)
    planted = planted_told(data)
    if planted is not None:
        return replace(by_state, sentences=planted[0], figure=planted[1])
    sizes = sizes_told(data)
    if sizes is not None:
        return replace(by_state, sentences=[sizes, *by_state.sentences][:SENTENCES], figure=largest(data))
    if several_amounts(data.table):
        return replace(by_state, **told(data, study, named))
    return by_state


def decoded(data: Data, equally_full: frozenset[str], state: str) -> Named:
    """'80.00' -> 'at 80% full'; '80.50' -> 'after filling to 80% and deleting half of the files (40% full)'.

    An unfragmented state that a fragmented one is compared with is named by that, where both are equally full.
    """
    axes = axes_of(data, state)
    if axes is None:
        return plain(state)
    capacity, deleted = axes
    if state in equally_full:
        return Named("on an equally full file system without holes", f"{capacity:g}% full, no holes")
    if not deleted:
        return Named(f"at {capacity:g}% full", f"{capacity:g}% full")
    share = "half" if deleted == HALF else f"{deleted:g}%"
    in_use = of_state(data.frame, state)["real_fullness_percent"].median()
    now = "" if pd.isna(in_use) else f" ({in_use:.0f}% full)"
    return Named(
        f"after filling to {capacity:g}% and deleting {share} of the files{now}",
        f"filled to {capacity:g}%, {share} deleted",
    )


def _equally_full(data: Data, study: Study) -> frozenset[str]:
    """Unfragmented states that a fragmented one of (about) the same real fullness is compared with."""
    rows = at_largest_transfer(data.frame)
    pairs = set()
    for pair in study.headline:
        axes = axes_of(data, pair.state), axes_of(data, pair.against)
        full = [of_state(rows, name)["real_fullness_percent"].median() for name in (pair.state, pair.against)]
        if axes[0] and axes[1] and axes[0][1] and not axes[1][1] and abs(full[0] - full[1]) < EQUAL_WITHIN_POINTS:
            pairs.add(pair.against)
    return frozenset(pairs)


def _of_one_filler(draw: Draw) -> Draw:
    """What has a point a structure, where a structure is laid in one way."""
    return lambda data: None if several_fillers(data) else draw(data)


VIEW = View(
    (
        truth,
        filler,
        amount,
        *map(
            _of_one_filler,
            (plane, over_capacity, over_fragmentation, loss, at_equal_fullness, file_sizes, position),
        ),
        metadata,
    ),
    reference="the unfragmented state of lowest capacity with the same parameters",
    answer=answer,
    published=published,
    headings={"fullness, %": "AA, %", "deleted, %": "BB, %"},
)
