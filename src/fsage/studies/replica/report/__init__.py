"""What the age of each layout costs here: against as much free space in one run, and that against the empty target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

from fsage.analysis.comparisons import Comparison, at_largest_transfer
from fsage.analysis.groups import measures, plural
from fsage.model import filesystems
from fsage.report.parts import Answer, Data, Named, View, by_comparisons
from fsage.statistics.intervals import AIM, Interval
from fsage.studies.limits import report as limits
from fsage.studies.replica.model import Replica
from fsage.studies.replica.recipe import EMPTY, JOINED
from fsage.studies.replica.report.maps import agreement, copied, is_copied, maps, ranking
from fsage.study.study import Study

CODES = (
    "A state that ends in .copied has the free space of that layout, block by block. One that ends in .joined has as "
    "much in one extent, and empty has all of it."
)


def answer(data: Data, study: Study) -> Answer | None:
    """A sentence for each comparison of the headline, and whether the allocator here is another than the original's."""
    tried = limits.answer(data)
    if tried:
        return tried
    full = {state: 100 * (1 - notes["original"]["free_bytes"] / notes["original"]["device_bytes"])
            for state, notes in copied(data).items()}  # fmt: skip
    named = partial(_named, data, full)
    order = partial(_worst_first, data)
    comparison_answer = by_comparisons(data, study, named, CODES, order, of_one="on this file system")
    tried_there = limits.sentences(data, [state for state in data.planned if is_copied(data, state)])
    more = [*tried_there, *_foreign(data), *_from_draws(data), *_replica(data)]
    return replace(comparison_answer, sentences=[*comparison_answer.sentences, *more])


def _replica(data: Data) -> list[str]:
    """What was measured is not the original's device."""
    if not any(Replica.kind in notes for notes in data.notes.values()):
        return []
    return ["These are rates of a replica, and not of the device that the layout comes from."]


def _foreign(data: Data) -> list[str]:
    """A sentence where a layout is of another file system than it was laid on."""
    here = filesystems.like(next(iter(data.frame["filesystem"].dropna()), None))
    pairs = dict.fromkeys(
        (data.axes_of(state)["layout"], source.title)
        for state, notes in copied(data).items()
        if here and (source := filesystems.like(notes.get("filesystem"))) and source.name != here.name
    )
    return [
        f"Layout {layout} is of {source}, and the target is {here.title}, which chooses blocks for new files in its "
        f"own way. On {source} the same free space may cost more or less."
        for layout, source in pairs
        if here
    ]


def _from_draws(data: Data) -> list[str]:
    """Of a text of sizes, how much of each interval's width comes from what it does not say (fsage.evidence.free)."""
    drawn = {
        data.axes_of(state)["layout"]: notes["drawn"]
        for state, notes in copied(data).items()
        if "from_sizes" in (notes.get("drawn") or {})
    }
    rows = at_largest_transfer(data.frame)
    sentences = []
    for layout, how in drawn.items():
        names = [state for state in rows["state"].unique() if data.axes_of(state).get("layout") == layout]
        of = rows[rows["state"].isin([state for state in names if is_copied(data, state)])]
        shares = {measure: share_of_draws(of, measure) for measure in measures(of)}
        words = [
            f"{share:.0%} of the interval of {plural(name)}" for name, share in shares.items() if share is not None
        ]
        itself = [
            f"{plural(measure)} of {held.low:.3g} to {held.high:.3g} MiB/s"
            for measure in shares
            if (held := of_one_more(list(of.groupby("structure")[measure].median())))
        ]
        if how["size_known"]:
            size = ""
        else:
            size = " and how large the device is"
        sentences.append(
            f"Where the free extents of {layout} lie{size}, its text does not say: that was drawn "
            f"{of['structure'].nunique()} times. The draws make {' and '.join(words) or 'a part that is not known'}."
            + f" The layout itself is one more draw: it has {' and '.join(itself)} with {AIM:.0%}."
            * bool(itself)
        )
    return sentences


def of_one_more(values: Sequence[float]) -> Interval | None:
    """Between which values one more draw lies with AIM, where logarithms are normal; None of fewer than two.

    A text is of one layout, not of the draws' median: that layout's value is as far from it as one draw's.
    Source: Hahn and Meeker, Statistical Intervals, section 4.8.
    """
    if len(values) < 2 or min(values) <= 0:
        return None
    logs = np.log(values)
    reach = float(stats.t.ppf((1 + AIM) / 2, len(logs) - 1) * logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs)))
    return Interval(math.exp(logs.mean() - reach), math.exp(logs.mean() + reach), AIM)


def share_of_draws(rows: pd.DataFrame, measure: str) -> float | None:
    """How much narrower an interval over draws would be without the differences between draws, as a share of it.

    The variance of the draws' medians is that between draws and that of a median of a draw's own samples, about pi/2 of
    that of their mean. Of logarithms, as intervals of ratios are.
    """
    logs = np.log(rows[measure]).groupby(rows["structure"])
    if logs.ngroups < 2 or (logs.count() < 2).any():
        return None
    all_variance = float(logs.median().var())
    noise = float((logs.var() / logs.count()).mean() * np.pi / 2)
    if all_variance:
        return 1 - math.sqrt(min(1.0, noise / all_variance))
    return 0.0


def _worst_first(data: Data, compared: list[Comparison]) -> list[Comparison]:
    """The comparisons with the costliest layout first; those of one layout stay together."""

    def layout_of(comparison: Comparison) -> object:
        return data.axes_of(comparison.state).get("layout")

    costs: dict[object, float] = {}
    for comparison in compared:
        if is_copied(data, comparison.state) and comparison.ratio.value is not None:
            layout = layout_of(comparison)
            costs[layout] = min(comparison.ratio.value, costs.get(layout, comparison.ratio.value))
    return sorted(compared, key=lambda comparison: costs.get(layout_of(comparison), float("inf")))


def _named(data: Data, full: dict[str, float], state: str) -> Named:
    axes = data.axes_of(state)
    layout = axes.get("layout", state)
    holes = axes.get("holes", EMPTY)
    percent = next((value for name, value in full.items() if data.axes_of(name) == axes), None)
    if percent is None:
        fullness = ""
    else:
        fullness = f", {percent:.0f}% full"
    if holes == EMPTY:
        return Named("on an empty target", "empty")
    if holes == JOINED:
        return Named("equally full without holes", f"without holes{fullness}")
    return Named(f"with the free space of {layout}{fullness}", f"{layout}{fullness}")


VIEW = View(
    (limits.section, ranking, maps, agreement),
    reference="as much free space in one run",
    answer=answer,
)
