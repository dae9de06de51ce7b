"""Many results of one study in the order of time: steps from each to the next, points of change, and what differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from fsage import dataset, statistics
from fsage.analysis.comparisons import ALIKE, at_largest_transfer, changed_between, paired, stamp
from fsage.analysis.groups import Measure, labelled_samples, samples
from fsage.analysis.words import few
from fsage.base.message import write_whole
from fsage.base.sizes import counted, ratio_text
from fsage.figures import Axis, lines
from fsage.report.compare import CompareError, compared, differences, main_groups, verdicts
from fsage.report.parts import Section, figures_of
from fsage.report.render import check_folder, draw, template

LEAST = 2
MOST = 100
WHOLE = "all groups"
SHOWN = 6
MOST_TICKS = 5
"""So many dates fit under an axis."""


def history(tables: Sequence[Path], to: Path) -> Path:
    """Write the page of the results into the folder `to`; return it. Raises DatasetError and CompareError.

    Each is a report's folder or its records.parquet. Compared are groups that all have, at the largest transfer.
    """
    check_folder(to)
    if not LEAST <= len(tables) <= MOST:
        raise CompareError(f"a history has {LEAST} to {MOST} results; given: {len(tables)}")
    whole = list(map(dataset.read, tables))
    _check_study(tables, whole)
    frames = [at_largest_transfer(labelled_samples(table)) for table in whole]
    empty = [str(path) for path, frame in zip(tables, frames, strict=True) if frame["began"].dropna().empty]
    if empty:
        raise CompareError(f"no valid sample that says when it was taken in {', '.join(empty)}")
    frames.sort(key=lambda frame: str(frame["began"].min()))
    names = _names(frames)
    every = pd.concat([main_groups(frame).assign(x=float(at)) for at, frame in enumerate(frames)], ignore_index=True)
    common = every.groupby(ALIKE).filter(lambda group: group["x"].nunique() == len(frames))
    if common.empty:
        states = "; ".join(f"{name}: {', '.join(_states(frame))}" for name, frame in zip(names, frames, strict=True))
        raise CompareError(f"nothing to compare: no state and cell is in all results. {states}")
    steps = [paired(*ends) for ends in pairwise(frames)]
    sections = [
        _courses(common, every, names),
        _steps(steps, names),
        _changes(common, steps, names),
        _differing(frames, names),
    ]
    ends = compared(frames[0], frames[-1])
    answer = verdicts(*ends, (f"the first result ({names[0]})", f"the last ({names[-1]})"))
    on = " | ".join(dict.fromkeys(map(stamp, frames)))
    panels = draw(figures_of(sections), on, to / "figures")
    title = f"{len(names)} results over time"
    page = template("answer.html.j2").render(title=title, answer=answer, stamp=on, sections=sections, panels=panels)
    path = to / "index.html"
    write_whole(path, page)
    return path


def _check_study(tables: Sequence[Path], frames: Sequence[pd.DataFrame]) -> None:
    """Raise CompareError where not all are of one study."""
    studies = [", ".join(sorted(frame["study"].dropna().unique())) for frame in frames]
    if len(set(studies)) > 1:
        each = "; ".join(f"{path} has {study or 'none'}" for path, study in zip(tables, studies, strict=True))
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


def _states(frame: pd.DataFrame) -> list[str]:
    return list(samples(frame)["state"].unique()[:SHOWN])


def _courses(common: pd.DataFrame, measured: pd.DataFrame, names: Sequence[str]) -> Section:
    """A figure a rate: the medians of a few states over the results; and what of what was `measured` not all have."""
    figures = []
    every = -(-len(names) // MOST_TICKS)
    ticks = {float(at): name.replace(" ", "\n") for at, name in enumerate(names) if at % every == 0}
    dated = dict(enumerate(names))
    for measure, part in common.groupby("measure", sort=False):
        name, unit = Measure.of(str(measure))
        first = part[part["params"] == part["params"].iloc[0]]
        shown = list(first["state"].unique()[:SHOWN])
        rows = first[first["state"].isin(shown)]
        rows = rows.assign(label=rows["state"], state=rows["x"].map(dated))
        x = Axis("first sample of each result", ticks=ticks)
        y = Axis.around(f"{name} bandwidth, {unit}" if unit == "MiB/s" else f"{name}s, {unit}", rows)
        figures.append(lines(f"{name.capitalize()}s, result by result", rows, "label", x, y))
    text = f"{len(names)} results by the date of their first sample, {names[0]} to {names[-1]}."
    left_out = measured.drop(index=common.index).drop_duplicates(ALIKE)
    if len(left_out):
        groups = counted(len(left_out), "group")
        states = few(list(left_out["state"].unique()), SHOWN)
        text += f" The figures leave out {groups} that not all results have, in states {states}."
    return Section("Over time", text, figures)


def _steps(steps: Sequence[pd.DataFrame], names: Sequence[str]) -> Section:
    """The changes from one result to the next in the same blocks, beyond chance over all steps together."""
    table = [["state", "rate", "from", "to", "ratio", "p"]]
    groups = 0
    for at, rows in enumerate(steps, start=1):
        ps, whole = changed_between(rows)
        groups += len(ps)
        of_measure = rows.groupby("measure")["log"].median()
        of_group = rows.groupby(ALIKE)["log"].median()
        found = [(WHOLE, measure, of_measure[measure], p) for measure, p in whole.items()]
        found += [(key[0], key[2], of_group[key], p) for key, p in ps.items()]
        for state, measure, log, p in found:
            adjusted = p * len(steps)
            if adjusted <= statistics.ALPHA:
                ends = names[at - 1], names[at]
                table.append(
                    [state, Measure.of(measure).name, *ends, f"{ratio_text(math.exp(log), 3)}x", f"{adjusted:.2g}"]
                )
    singled = sum(row[0] != WHOLE for row in table[1:])
    text = (
        f"{singled} of {groups} steps in the same blocks are beyond chance by themselves, and "
        f"{len(table) - 1 - singled} of a rate as a whole: one test for each step, adjusted over all steps. Groups in "
        "other layouts have no verdict. Each result is one run, so a step may be its own."
    )
    return Section("Steps", text, table=table)


def _changes(common: pd.DataFrame, steps: Sequence[pd.DataFrame], names: Sequence[str]) -> Section:
    """Where the rates of all groups together move to another level and stay there."""
    if len(names) < statistics.LEAST_FOR_CHANGE:
        why = statistics.change([0.0] * len(names)).why
        return Section("Points of change", f"Not known: {why}.")
    same = steps[0][ALIKE].drop_duplicates()
    for step in steps[1:]:
        same = same.merge(step[ALIKE].drop_duplicates())
    rows = common.merge(same)
    if rows.empty:
        return Section("Points of change", "No group was measured in the same blocks in all results.")
    logs = rows.pivot_table(index="x", columns=ALIKE, values="median").map(np.log)
    together = (logs - logs.mean()).T.groupby(level="measure").mean().T
    tests = {str(measure): statistics.change(together[measure].tolist()) for measure in together}
    ps = statistics.adjust_primary([test.p for test in tests.values()])
    table = [["rate", "last before", "first after", "ratio", "p"]]
    for (measure, test), p in zip(tests.items(), ps, strict=True):
        if test.after is None or p is None or p > statistics.ALPHA:
            continue
        series = together[measure].tolist()
        moved = math.exp(median(series[test.after :]) - median(series[: test.after]))
        ends = [names[test.after - 1], names[test.after]]
        table.append([Measure.of(measure).name, *ends, f"{ratio_text(moved, 3)}x", f"{p:.2g}"])
    text = (
        f"{len(table) - 1} of {len(tests)} rates move to another level and stay there: Pettitt's test of the mean over "
        f"{counted(len(same), 'group')} in the same blocks, adjusted over the rates (Holm)."
    )
    return Section("Points of change", text, table=table)


def _differing(frames: Sequence[pd.DataFrame], names: Sequence[str]) -> Section:
    """What is not alike in neighbours."""
    table = [["to", "what", "before", "after"]]
    for name, (before, after) in zip(names[1:], pairwise(frames), strict=True):
        for difference in differences([before, after]):
            table.append([name, *difference.values()])
    if len(table) == 1:
        alike = "Nothing that the records know of differs."
    else:
        alike = "From each result to the next."
    return Section("What differs", alike, table=table)
