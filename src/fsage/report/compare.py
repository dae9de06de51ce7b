"""Result sets beside each other: before and after a change, or two file systems, cell by cell; or many in time.

What is compared are groups of the same name in the same state under the same parameters; whatever else differs between
the sets is listed. Nothing is pooled. A history has many results of one study: steps from each to the next, points of
change, and what differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from fsage import dataset, statistics
from fsage.analysis.comparisons import ALIKE, at_largest_transfer, changed_between, paired, stamp
from fsage.analysis.conditions import SETTING, settings
from fsage.analysis.groups import Measure, labelled_samples, params_labels, plotted, samples, summarise
from fsage.analysis.words import bounds, few, sentences
from fsage.base.sizes import counted, ratio_text, round_size
from fsage.figures import Axis, Figure, Level, Place, Plane, lines, placed
from fsage.report.parts import Section
from fsage.report.render import check_folder, write_page

ORDER = ["capacity_percent", "fragmentation_percent", "state", "transfer_size_bytes", "params"]
MOST_SAMPLES = 200
"""Most samples of a group: the exact test takes seconds with so many, and hours with a thousand."""
SHOWN = 10
OF_CELL = ["state", "params"]
AT = [*OF_CELL, "structure", "place"]
ORIGIN = {"study": "study", "target": "target", "host": "host"}
SIZES = {"capacity_bytes": "capacity", "measured_file_bytes": "a measured file"}
"""What the scale of a target decides: medians, as sizes."""


class CompareError(ValueError):
    """Two tables have nothing in common; the message says what each has."""


def compare(before: Path, after: Path, to: Path, names: tuple[str, str] = ("before", "after")) -> Path:
    """Write the report of `after` against `before` into the folder `to`; return the page.

    Each is a report's folder or its records.parquet. Raises DatasetError and CompareError.
    """
    check_folder(to)
    frames = list(map(dataset.read, (before, after)))
    tables = list(map(main_groups, frames))
    for path, table in zip((before, after), tables, strict=True):
        most = int(table["n"].max() if len(table) else 0)
        if most > MOST_SAMPLES:
            raise CompareError(f"{path} has {most:,} samples of one cell; at most {MOST_SAMPLES} are compared")
    common = tables[0].merge(tables[1], on=ALIKE)
    if common.empty:
        states = [", ".join(table["state"].unique()[:SHOWN]) or "no valid sample" for table in tables]
        raise CompareError(
            f"nothing to compare: no state and cell is in both. {before} has {states[0]}; {after} has {states[1]}"
        )
    rows, whole = compared(*frames)
    return write_page(
        to,
        "compare.html.j2",
        [_section(rows, names)],
        _stamp(frames, names),
        before=names[0],
        after=names[1],
        rows=rows.astype(object).where(rows.notna(), None).to_dict("records"),
        verdicts=verdicts(rows, whole, names),
        warnings=_alone(tables, names),
        differences=differences(frames),
    )


def main_groups(frame: pd.DataFrame) -> pd.DataFrame:
    """The groups that figures show: of several conditions in one set, the usual ones."""
    table = summarise(frame)
    return table[table["main"]]


def compared(before: pd.DataFrame, after: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, float]]:
    """A row a group of both: the factor `median` with its interval, both medians, `same` layouts or not, and p.

    Beside these p by measure that the whole did not change. All p are of one family: of the groups that both measured
    in the same blocks (`fsage.analysis.comparisons`). Other layouts have neither p nor verdict.
    """
    pairs = paired(before, after)
    former = main_groups(_in_both(before, pairs))[[*ALIKE, "median", "n", "units"]]
    both = former.merge(main_groups(_in_both(after, pairs)), on=ALIKE, suffixes=("_before", "_after"))
    both = both.sort_values(ORDER, kind="stable", ignore_index=True)
    ps, whole = changed_between(pairs)
    p = pd.Series(list(map(ps.get, both[ALIKE].itertuples(index=False, name=None))), both.index, "float64")
    groups = zip(both["units_after"], both["units_before"], p.notna(), strict=True)
    ratios = [statistics.factor(in_state, reference, same) for in_state, reference, same in groups]
    factors = pd.DataFrame(map(plotted, ratios), both.index).drop(columns="n")
    rows = both.assign(
        **dict(factors.items()),
        n=[min(ratio.n, ratio.n_reference) for ratio in ratios],
        cell=both["params"].map(params_labels(both)),
        rate=[" ".join(Measure.of(name)) for name in both["measure"]],
        same=p.notna(),
        p=p,
    )
    return rows, whole


def _in_both(frame: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """The records without those at layouts and places of a cell that `pairs` has at others only."""
    rows = labelled_samples(frame)[AT]
    known = [rows.merge(pairs[keys].drop_duplicates(), how="left", on=keys, indicator="side") for keys in (OF_CELL, AT)]
    of_cell, at_place = (sides["side"].eq("both").to_numpy() for sides in known)
    return frame.drop(index=rows.index[of_cell & ~at_place])


def verdicts(rows: pd.DataFrame, whole: Mapping[str, float], names: tuple[str, str]) -> list[str]:
    """A sentence for each rate, and the test of the whole."""
    same = rows[rows["same"]]
    sure = same[same["p"] <= statistics.ALPHA].sort_values("p", kind="stable")
    return sentences(
        "compare",
        before=names[0],
        after=names[1],
        rates=[(Measure.of(rate).plural, part["median"]) for rate, part in rows.groupby("measure", sort=False)],
        groups=len(rows),
        same=len(same),
        least_p=f"{min([same['p'].min(), *whole.values()]):.2g}",
        sure=[f"{_short(row)} {ratio_text(row.median, 3)}x" for row in sure.itertuples()],
        shown=SHOWN,
        moved=[Measure.of(rate).plural for rate, p in whole.items() if p <= statistics.ALPHA],
    )


def _short(row: Any) -> str:
    """'80.50 write, 64 MiB'."""
    return f"{row.state.split('@')[0]} {Measure.of(row.measure).name}, {row.cell}"


def _alone(tables: list[pd.DataFrame], names: tuple[str, str]) -> list[str]:
    """What only one of the two has."""
    keys = [table.set_index(ALIKE).index for table in tables]
    alone = []
    for name, own, others in zip(names, keys, reversed(keys), strict=True):
        groups = own.difference(others)
        if len(groups):
            states = list(groups.unique("state"))
            alone.append(f"Only {name} has {counted(len(groups), 'group')}, in states {few(states, SHOWN)}.")
    return alone


def differences(frames: list[pd.DataFrame]) -> list[dict[str, str]]:
    """Conditions that are not the same in both."""
    rows = []
    taken = list(map(samples, frames))
    settings_of = [settings(frame).join(frame[list(ORIGIN)]) for frame in taken]
    for column, what in {**ORIGIN, **SETTING}.items():
        values = [sorted(texts[column].dropna().unique()) for texts in settings_of]
        if values[0] != values[1]:
            before, after = (", ".join(some) or "not known" for some in values)
            rows.append({"what": what, "before": before, "after": after})
    for column, what in SIZES.items():
        before, after = (_size(frame, column) for frame in taken)
        if before != after:
            rows.append({"what": what, "before": before, "after": after})
    return rows


def _size(valid_rows: pd.DataFrame, column: str) -> str:
    """The median of one of SIZES, in words."""
    measured = valid_rows.assign(measured_file_bytes=valid_rows["measured_bytes"] / valid_rows["measured_files"])
    size = measured[column].median()
    return "not known" if pd.isna(size) else round_size(int(size))


def _stamp(frames: list[pd.DataFrame], names: tuple[str, str]) -> str:
    before, after = map(stamp, frames)
    if before == after:
        return before
    return f"{names[0]}: {before}; {names[1]}: {after}"


def _section(rows: pd.DataFrame, names: tuple[str, str]) -> Section:
    """The factors at the largest transfer: over the plane where the states lie on one, else state by state."""
    largest = rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].max()]
    rows = largest if len(largest) else rows
    figures = [_figure(str(measure), part, names) for measure, part in rows.groupby("measure", sort=False)]
    return Section("Factors", f"What {names[1]} reaches of {names[0]}, at the largest transfer.", figures)


def _figure(measure: str, part: pd.DataFrame, names: tuple[str, str]) -> Figure:
    title = f"{Measure.of(measure).name.capitalize()}s of {names[1]} relative to {names[0]}"
    if part["capacity_percent"].nunique() > 1 and part["fragmentation_percent"].nunique() > 1:
        places = part.drop_duplicates(["capacity_percent", "fragmentation_percent"])
        return Plane(
            title,
            tuple(map(_place, places.itertuples())),
            Axis("capacity AA, % of the empty target (nominal)"),
            Axis("fragmentation BB, % of files deleted (nominal)"),
            empty="not in both",
            factor=True,
        )
    by_state, ticks = placed(part, "state")
    y = Axis.around("factor", part, 1.0)
    return lines(title, by_state, "cell", Axis("state", ticks=ticks), y, joined=False, levels=[Level(1.0)])


def _place(row: Any) -> Place:
    says = f"{row.state}: {ratio_text(row.median, 3)}{bounds(row.low, row.high)}, n = {row.n}"
    return Place(row.capacity_percent, row.fragmentation_percent, row.median, row.n, row.low, row.high, says=says)


LEAST_RESULTS = 2
MOST_RESULTS = 100
WHOLE = "all groups"
STATES_SHOWN = 6
MOST_TICKS = 5
"""So many dates fit under an axis."""


def history(tables: Sequence[Path], to: Path) -> Path:
    """Write the page of the results into the folder `to`; return it. Raises DatasetError and CompareError.

    Each is a report's folder or its records.parquet. Compared are groups that all have, at the largest transfer.
    """
    check_folder(to)
    if not LEAST_RESULTS <= len(tables) <= MOST_RESULTS:
        raise CompareError(f"a history has {LEAST_RESULTS} to {MOST_RESULTS} results; given: {len(tables)}")
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
    title = f"{len(names)} results over time"
    return write_page(to, "answer.html.j2", sections, on, title=title, answer=answer)


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
    return list(samples(frame)["state"].unique()[:STATES_SHOWN])


def _courses(common: pd.DataFrame, measured: pd.DataFrame, names: Sequence[str]) -> Section:
    """A figure a rate: the medians of a few states over the results; and what of what was `measured` not all have."""
    figures = []
    every = -(-len(names) // MOST_TICKS)
    ticks = {float(at): name.replace(" ", "\n") for at, name in enumerate(names) if at % every == 0}
    dated = dict(enumerate(names))
    for measure, part in common.groupby("measure", sort=False):
        name, unit = Measure.of(str(measure))
        first = part[part["params"] == part["params"].iloc[0]]
        shown = list(first["state"].unique()[:STATES_SHOWN])
        rows = first[first["state"].isin(shown)]
        rows = rows.assign(label=rows["state"], state=rows["x"].map(dated))
        x = Axis("first sample of each result", ticks=ticks)
        y = Axis.around(f"{name} bandwidth, {unit}" if unit == "MiB/s" else f"{name}s, {unit}", rows)
        figures.append(lines(f"{name.capitalize()}s, result by result", rows, "label", x, y))
    text = f"{len(names)} results by the date of their first sample, {names[0]} to {names[-1]}."
    left_out = measured.drop(index=common.index).drop_duplicates(ALIKE)
    if len(left_out):
        groups = counted(len(left_out), "group")
        states = few(list(left_out["state"].unique()), STATES_SHOWN)
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
        why = f"{len(names)} values are too few to show a change: {statistics.LEAST_FOR_CHANGE} at least"
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
