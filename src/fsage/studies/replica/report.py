"""What the age of each layout costs here: against as much free space in one run, and that against the empty target.

Beside it stands what was copied of each layout, and how much of it agrees with its original. The worst layout is the
one to drain or to defragment first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from fsage.api.model import Json, filesystems, round_size
from fsage.api.report import (
    Answer,
    Data,
    Named,
    Section,
    View,
    by_comparisons,
    dataset,
    figures,
    groups,
    statistics,
    words,
)
from fsage.studies.limits import report as limits

from .model import KeepFreeSpace, Replica
from .recipe import COPIED, EMPTY, JOINED

AIM = 0.95
WHY = {
    "metadata": "free in the original, and the target's own metadata lie there",
    "taken": "free in the original, in use here (maps of extents)",
    "left": "in use in the original, free here",
}


def copied(data: Data) -> dict[str, dict[str, Any]]:
    """State -> what its step noted, of the states that are replicas."""
    copies = {}
    for state, notes in data.notes.items():
        for kind in (Replica.kind, KeepFreeSpace.kind):
            if kind in notes:
                copies[state] = notes[kind]
    return copies


def is_copied(data: Data, state: str) -> bool:
    """Whether it has the free space of a layout as that lies."""
    return data.axes_of(state).get("holes") == COPIED


def maps(data: Data) -> Section | None:
    """A strip for each original and one for each of its states."""
    plots: list[figures.Figure] = []
    for layout, states in _by_layout(data).items():
        strips: dict[str, tuple[float, ...]] = {}
        for state, noted in states.items():
            original = noted["original"]
            achieved = noted["found"]
            if original["device_bytes"] == achieved["device_bytes"]:
                strips.setdefault("original", _shares(original))
            strips[state.partition("@")[0]] = _shares(achieved)
        device_bytes = max(noted["found"]["device_bytes"] for noted in states.values())
        plots.append(figures.Strips(f"Free space of {layout} and of its replica", strips, device_bytes))
    if not plots:
        return None
    text = (
        "The device from its first block to its last, dark where it is in use. The original is shown as its list of "
        "free extents has it; of a layout larger than the target there is a sample of its groups only."
    )
    return Section("The original and its replica", text, plots)


def agreement(data: Data) -> Section | None:
    """A row for each state: how many of the free bytes agree, one by one, and why the rest do not."""
    table = [["state", "source", "original", "free extents", "here", "agree", *WHY]]
    for state, noted in copied(data).items():
        row = [
            state,
            str(noted["source"]),
            f"{_full(noted['original']):.1f}% full",
            f"{noted['original']['free_extents']:,}",
            f"{noted['found']['free_extents']:,}",
            f"{math.floor(1e5 * noted['agree_share']) / 1e3:.3f}%",  # 100% only where nothing differs
        ]
        table.append(row + [round_size(noted[f"{why}_bytes"]) for why in WHY])
    if len(table) == 1:
        return None
    sentences = ["Bytes that are free in both, as a share of bytes that are free in either."]
    sentences += [f"Column {name}: {words}." for name, words in WHY.items()]
    if any("bitmap" in noted.get("held_by", "") for noted in copied(data).values()):
        sentences.append("No file holds what is in use here: it is marked in the block bitmaps.")
    return Section("How exactly it was copied", " ".join(sentences), [], warnings=_drawn(data), table=table)


def _drawn(data: Data) -> list[str]:
    """How well samples stand for the layout."""
    samples = []
    for state, noted in copied(data).items():
        drawn = noted.get("drawn") or {}
        if "windows" in drawn:
            samples.append((state, len(dataset.lists(drawn["windows"])[0]), drawn))
    return words.sentences("replica/drawn", samples=samples)


def span(ratio: statistics.Ratio) -> str:
    """'0.86 (0.84 to 0.88)'; without an interval the value alone, '' where there is none."""
    if ratio.value is None:
        return ""
    interval = ratio.interval
    return f"{ratio.value:.2f}" + (f" ({interval.low:.2f} to {interval.high:.2f})" if interval else "")


def _by_layout(data: Data) -> dict[str, dict[str, dict[str, Any]]]:
    by_layout: dict[str, dict[str, dict[str, object]]] = {}
    for state, noted in copied(data).items():
        axes = data.axes_of(state)
        original = axes["layout"] if "layout" in axes else axes["way"]  # of recipe replica, or of recipe aged
        by_layout.setdefault(str(original), {})[state] = noted
    return {layout: dict(sorted(states.items())) for layout, states in by_layout.items()}


def _shares(free_space: dict[str, Any]) -> tuple[float, ...]:
    [percents] = dataset.lists(free_space["free_percent"])
    return tuple(share / 100 for share in percents)


def _full(free_space: dict[str, Any]) -> float:
    return 100 * (1 - free_space["free_bytes"] / free_space["device_bytes"])


def ranking(data: Data) -> Section | None:
    """A row for each layout, the slowest writes first: its rates over those of as much free space in one run."""
    rows = groups.factors(data.table)
    rows = rows[rows["main"] & rows["state"].map(lambda state: is_copied(data, str(state)))]
    measures = list(dict.fromkeys(rows["measure"]))
    if rows.empty:
        return None
    ranked: list[tuple[float, list[str]]] = []
    for state, part in rows.groupby("state", sort=False):
        by_measure = dict(zip(part["measure"], part["to_clean"], strict=True))
        axes = data.axes_of(str(state))
        noted = _noted(data, axes)
        lies = ["", ""]
        if noted:
            lies = [percent_full(noted, 1), _ends([of["found"]["free_extents"] for of in noted], "{:,}")]
        cells = [span(by_measure[measure]) if measure in by_measure else "" for measure in measures]
        ranked.append((min(factor.value for factor in by_measure.values()), [axes["layout"], *lies, *cells]))
    ranked.sort(key=lambda entry: entry[0])
    head = ["layout", "full", "free extents", *(f"{groups.Measure.of(measure).name}s" for measure in measures)]
    table = [head, *(row for _, row in ranked)]
    text = (
        "Rates with the copied free space over rates with the same amount in one extent. The worst is first: drain or "
        "defragment it first, if this target resembles its device. An interval that contains 1 shows no cost."
    )
    return Section("What the age of each costs", text, [], table=table)


CODES = (
    "A state that ends in .copied has the free space of that layout, block by block. One that ends in .joined has as "
    "much in one extent, and empty has all of it."
)


def answer(data: Data) -> Answer | None:
    """A sentence for each comparison of the headline, and whether the allocator here is another than the original's."""
    tried = limits.answer(data)
    if tried:
        return tried
    named = partial(_named, data)
    costs = _costs(data)

    def cost(state: str) -> float:
        """The costliest layout first; states of one layout stay together."""
        return costs.get(data.axes_of(state).get("layout"), math.inf)

    comparison_answer = by_comparisons(data, named, CODES, cost, of_one="on this file system")
    tried_there = limits.sentences(data, [state for state in data.planned if is_copied(data, state)])
    own = filesystems.like(next(iter(data.frame["filesystem"].dropna()), None))
    foreign: dict[tuple[str, str], None] = {}
    for state, noted in copied(data).items():
        source = filesystems.like(noted.get("filesystem"))
        if own and source and source.name != own.name:
            foreign[data.axes_of(state)["layout"], source.title] = None
    said = words.sentences(
        "replica/answer",
        own=own and own.title,
        foreign=foreign,
        drawn=_from_draws(data),
        aim=AIM,
        is_replica=any(Replica.kind in noted for noted in data.notes.values()),
    )
    more = [*tried_there, *said]
    return replace(comparison_answer, sentences=[*comparison_answer.sentences, *more])


def _from_draws(data: Data) -> dict[str, dict[str, object]]:
    """Layout -> how much of each interval's width comes from what a text of sizes does not say (fsage.evidence)."""
    rows = data.at_largest_transfer
    copies = rows[rows["state"].map(lambda state: is_copied(data, str(state)))]
    layouts = copies["state"].map(lambda state: data.axes_of(str(state)).get("layout"))
    drawn = {}
    for state, noted in copied(data).items():
        how = noted.get("drawn") or {}
        if "from_sizes" not in how:
            continue
        name = data.axes_of(state)["layout"]
        of = copies[layouts == name]
        shares = {}
        itself = {}
        for measure in data.measures:
            share = share_of_draws(of, measure)
            if share is not None:
                shares[groups.Measure.of(measure).plural] = share
            reach = of_one_more(of.groupby("structure")[measure].median().dropna().tolist())
            if reach:
                itself[groups.Measure.of(measure).plural] = reach
        draws = of["structure"].nunique()
        size_known = how["size_known"]
        drawn[name] = {"size_known": size_known, "draws": draws, "shares": shares, "itself": itself}
    return drawn


def of_one_more(values: Sequence[float]) -> tuple[float, float] | None:
    """Between which values one more draw lies with AIM, where logarithms are normal; None of fewer than two.

    A text is of one layout, not of the draws' median: that layout's value is as far from it as one draw's.
    Source: Hahn and Meeker, Statistical Intervals, section 4.8.
    """
    if len(values) < 2 or min(values) <= 0:
        return None
    logs = np.log(values)
    reach = float(stdtrit(len(logs) - 1, (1 + AIM) / 2) * logs.std(ddof=1) * math.sqrt(1 + 1 / len(logs)))
    return math.exp(logs.mean() - reach), math.exp(logs.mean() + reach)


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


def _costs(data: Data) -> dict[object, float]:
    """Layout -> the least that it reaches of as much free space in one run."""
    costs: dict[object, float] = {}
    for comparison in data.comparisons:
        if is_copied(data, comparison.state) and comparison.ratio.value is not None:
            layout = data.axes_of(comparison.state).get("layout")
            costs[layout] = min(comparison.ratio.value, costs.get(layout, comparison.ratio.value))
    return costs


def percent_full(noted: Iterable[dict[str, Any]], digits: int = 0) -> str:
    """'69%', or of several samples '69 to 72%'."""
    return _ends([_full(of["original"]) for of in noted], f"{{:.{digits}f}}") + "%"


def _ends(values: Sequence[float], written: str) -> str:
    """The least and the most, or the one value that both are as they are `written`."""
    return " to ".join(dict.fromkeys(map(written.format, (min(values), max(values)))))


def _noted(data: Data, axes: Json) -> list[dict[str, Any]]:
    """What was noted of the states with these levels: the samples of a layout."""
    return [noted for state, noted in copied(data).items() if data.axes_of(state) == axes]


def _named(data: Data, state: str) -> Named:
    axes = data.axes_of(state)
    layout = axes.get("layout", state)
    holes = axes.get("holes", EMPTY)
    noted = _noted(data, axes)
    fullness = f", {percent_full(noted)} full" if noted else ""
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
