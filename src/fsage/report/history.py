"""Many results of one study in the order of time: steps from each to the next, points of change, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pandas as pd

from fsage import dataset, statistics
from fsage.analysis.groups import measure_label, samples
from fsage.analysis.headline import at_largest_transfer, stamp
from fsage.figures import Axis, limits, lines
from fsage.report.compare import ALIKE, ORDER, CompareError, compared, differences, main_groups, verdicts
from fsage.report.page import draw
from fsage.report.render import template
from fsage.report.section import Section

LEAST, MOST = 2, 100
SHOWN = 6
MOST_TICKS = 5
"""So many dates fit under an axis."""


def history(tables: Sequence[Path], to: Path) -> Path:
    """Write the page of the results into the folder `to`; return it. Raises DatasetError and CompareError.

    Each is a report's folder or its records.parquet. Compared are groups that all have, at the largest transfer.
    """
    if to.exists() and not to.is_dir():
        raise CompareError(f"{to} is no folder: name one for the page and its figures")
    if not LEAST <= len(tables) <= MOST:
        raise CompareError(f"a history has {LEAST} to {MOST} results; given: {len(tables)}")
    whole = [dataset.read(path) for path in tables]
    _check_study(tables, whole)
    frames = [at_largest_transfer(frame) for frame in whole]
    if empty := [str(path) for path, frame in zip(tables, frames, strict=True) if frame.empty]:
        raise CompareError(f"no valid sample in {', '.join(empty)}")
    frames.sort(key=lambda frame: str(frame["began"].min()))
    names = _names(frames)
    every = pd.concat([main_groups(frame).assign(x=float(at)) for at, frame in enumerate(frames)], ignore_index=True)
    common = every.groupby(ALIKE).filter(lambda group: group["x"].nunique() == len(frames))
    if common.empty:
        states = "; ".join(f"{name}: {', '.join(_states(frame))}" for name, frame in zip(names, frames, strict=True))
        raise CompareError(f"nothing to compare: no state and cell is in all results. {states}")
    sections = [_courses(common, names), _steps(common, names), _changes(common, names), _differing(frames, names)]
    answer = _answer(common, names)
    on = " | ".join(dict.fromkeys(stamp(frame) for frame in frames))
    panels = draw([figure for section in sections for figure in section.figures], on, to / "figures")
    title = f"{len(names)} results over time"
    page = template("answer.html.j2").render(title=title, answer=answer, stamp=on, sections=sections, panels=panels)
    path = to / "index.html"
    path.write_text(page, encoding="utf-8")
    return path


def _check_study(tables: Sequence[Path], frames: Sequence[pd.DataFrame]) -> None:
    """Raise CompareError where not all are of one study."""
    held = [", ".join(sorted(frame["study"].dropna().unique())) for frame in frames]
    if len(set(held)) > 1:
        each = "; ".join(f"{path} has {study or 'none'}" for path, study in zip(tables, held, strict=True))
        raise CompareError(
            f"a history is of one study, and these are of several: {each}. Give those of one; `fsage compare` sets two "
            "side by side"
        )


def _names(frames: Sequence[pd.DataFrame]) -> list[str]:
    """'2026-11-21', of several on a day with the time, '2026-11-21 14:05'; of several in a minute with a number."""
    began = [str(frame["began"].min()) for frame in frames]
    for characters in (10, 16):
        names = [time[:characters].replace("T", " ") for time in began]
        if len(set(names)) == len(names):
            return names
    return [f"{name} ({names[: at + 1].count(name)})" for at, name in enumerate(names)]


def _answer(common: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """What the last result is beside the first: a sentence a rate."""
    ends = [common[common["x"] == at].drop(columns="x") for at in (0, len(names) - 1)]
    both = ends[0].merge(ends[1], on=ALIKE, suffixes=("_before", "_after"))
    rows = compared(both.sort_values(ORDER, kind="stable"))
    return verdicts(rows, (f"the first result ({names[0]})", f"the last ({names[-1]})"))


def _states(frame: pd.DataFrame) -> list[str]:
    return list(samples(frame)["state"].unique()[:SHOWN])


def _courses(common: pd.DataFrame, names: Sequence[str]) -> Section:
    """A figure a rate: the medians of a few states over the results."""
    figures = []
    every = -(-len(names) // MOST_TICKS)
    ticks = {float(at): name.replace(" ", "\n") for at, name in enumerate(names) if at % every == 0}
    dated = dict(enumerate(names))
    for measure, part in common.groupby("measure", sort=False):
        name, unit = measure_label(str(measure))
        first = part[part["params"] == part["params"].iloc[0]]
        shown = list(first["state"].unique()[:SHOWN])
        rows = first[first["state"].isin(shown)]
        rows = rows.assign(label=rows["state"], state=rows["x"].map(dated))
        x = Axis("first sample of each result", ticks=ticks)
        y = Axis(f"{name} bandwidth, {unit}" if unit == "MiB/s" else f"{name}s, {unit}", limits(rows))
        figures.append(lines(f"{name.capitalize()}s over results", rows, "label", x, y))
    text = f"{len(names)} results by the date of their first sample, {names[0]} to {names[-1]}."
    return Section("Over time", text, figures)


def _steps(common: pd.DataFrame, names: Sequence[str]) -> Section:
    """The ratios of neighbours that are beyond chance."""
    groups = [(key, list(group.sort_values("x")["samples"])) for key, group in common.groupby(ALIKE, sort=False)]
    sure = []
    for at in range(1, len(names)):
        ps = statistics.adjust_exploratory([statistics.compare(taken[at], taken[at - 1]).p for _, taken in groups])
        for (key, taken), p in zip(groups, ps, strict=True):
            if p is not None and p < statistics.ALPHA:
                sure.append((key, at, statistics.ratio(taken[at], taken[at - 1]), p))
    table = [["state", "rate", "from", "to", "ratio", "p"]]
    for (state, _, measure), at, ratio, p in sure:
        held = f" ({ratio.interval.low:.3f} to {ratio.interval.high:.3f})" if ratio.interval else ""
        value = "" if ratio.value is None else f"{ratio.value:.3f}x{held}"
        table.append([state, measure_label(measure)[0], names[at - 1], names[at], value, f"{p:.2g}"])
    text = (
        f"{len(sure)} of {len(groups) * (len(names) - 1)} steps from one result to the next are beyond chance by the "
        "exact rank-sum test, adjusted over the groups of each (exploratory). Each result is one run: a step may be of "
        "that run alone."
    )
    return Section("Steps", text, [], table=table if sure else [])


def _changes(common: pd.DataFrame, names: Sequence[str]) -> Section:
    """Where medians move to another level and stay there."""
    if len(names) < statistics.LEAST_FOR_CHANGE:
        why = statistics.change([0.0] * len(names)).why
        return Section("Points of change", f"Not known: {why}.", [])
    groups = [(key, group.sort_values("x")["median"].tolist()) for key, group in common.groupby(ALIKE, sort=False)]
    tests = [statistics.change(medians) for _, medians in groups]
    ps = statistics.adjust_exploratory([test.p for test in tests])
    table = [["state", "rate", "last before", "first after", "ratio of medians", "p"]]
    for ((state, _, measure), medians), test, p in zip(groups, tests, ps, strict=True):
        if test.after is None or p is None or p >= statistics.ALPHA:
            continue
        before, after = pd.Series(medians[: test.after]).median(), pd.Series(medians[test.after :]).median()
        ends = [names[test.after - 1], names[test.after]]
        table.append([state, measure_label(measure)[0], *ends, f"{after / before:.3f}x", f"{p:.2g}"])
    text = (
        f"{len(table) - 1} of {len(groups)} groups move to another level and stay there (Pettitt's test over the "
        "results' medians, adjusted over all; exploratory)."
    )
    return Section("Points of change", text, [], table=table if len(table) > 1 else [])


def _differing(frames: Sequence[pd.DataFrame], names: Sequence[str]) -> Section:
    """What is not alike in neighbours."""
    table = [["to", "what", "before", "after"]]
    for name, (before, after) in zip(names[1:], pairwise(frames), strict=True):
        table += [
            [name, difference["what"], difference["before"], difference["after"]]
            for difference in differences([before, after])
        ]
    alike = "Nothing that the records know of differs." if len(table) == 1 else "From each result to the next."
    return Section("What differs", alike, [], table=table if len(table) > 1 else [])
