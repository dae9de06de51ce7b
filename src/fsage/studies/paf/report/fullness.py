"""Fragmentation apart from fullness, the physical position apart from both, and how much of the target is measured.

Fragmented states stand beside unfragmented ones that are equally full. A disk is faster on its outer tracks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from fsage.api.report import Data, Named, Section, dataset, figures, groups, statistics, words

from .rows import (
    CAPACITY,
    FRAGMENTATION,
    FULLNESS,
    RELATIVE,
    by_measure,
    largest_transfer,
    levels_axis,
    main_rows,
    note,
    place,
    places,
    spread,
    transfers,
)

SHARE = "share of the capacity that is measured, %"


def several_amounts(rows: pd.DataFrame) -> bool:
    """Whether the study compares shares of the target."""
    return shares(rows).nunique() > 1


def shares(rows: pd.DataFrame) -> pd.Series:
    """What share of the capacity is measured, in percent."""
    return dataset.unpacked(rows, "param", "amount_percent")["amount_percent"].astype("float64")


def amount(data: Data) -> Section | None:
    """Each state over the one that it is compared with, over the share that is measured."""
    rows = _by_share(data)
    if rows.empty:
        return None
    text = (
        f"Each state over {rows['clean'].iloc[0]} with as much measured: below 1 is a loss. Who writes little may find "
        "whole runs where who writes much has to take the holes: the table has in how many extents the files lie."
    )
    states = {state: state for state in sorted(rows["state"].unique())}
    plots = [
        _over_share(f"{name.capitalize()}s against the share that is measured", rows, part, "state", states)
        for name, _, part in by_measure(rows)
    ]
    return Section("How much is measured", text, plots, table=_table(data.samples))


def _by_share(data: Data) -> pd.DataFrame:
    """The states' rates over those that they are compared with; `x`: the share that is measured. None of one share."""
    rows = groups.factors(main_rows(data))
    if not several_amounts(data.table):
        rows = rows.iloc[:0]
    return rows.assign(x=shares(rows)).sort_values("x")


def _over_share(title: str, rows: pd.DataFrame, part: pd.DataFrame, by: str, labels: dict[str, str]) -> figures.Figure:
    """A part of the rows, with the axes of all."""
    x = levels_axis(rows, "x", SHARE)
    y = figures.Axis.around("factor", rows, 1.0)
    return figures.lines(title, part, by, x, y, labels=labels, levels=[figures.Level(1.0)])


def details(data: Data, named: Callable[[str], Named]) -> dict[str, Any]:
    """Sentences and figure of the answer: what each share of the target shows of the first pair that is compared."""
    rows = data.at_largest_transfer
    percents = dict(zip(rows["params"].map(groups.params_labels(rows)), shares(rows), strict=True))
    compared = [comparison for comparison in data.comparisons if comparison.ratio.value is not None]
    rows_by_share = _by_share(data)
    if not compared or rows_by_share.empty:
        return {}
    first = compared[0]
    of_pair = [pair for pair in compared if (pair.state, pair.against) == (first.state, first.against)]
    reached: dict[str, list[str]] = {}
    measured: dict[str, None] = {}
    sure = []
    for comparison in of_pair:
        doing = groups.Measure.of(comparison.measure).doing
        share = f"{percents[comparison.params]:g}%"
        measured[share] = None
        reached.setdefault(doing, []).append(f"{comparison.ratio}x")
        if comparison.finding.sure:
            sure.append(f"{doing} with {share}")
    said = words.sentences(
        "paf/amounts",
        in_one=first.ratio.unit in (statistics.PLACE, statistics.SAMPLE),
        measured=list(measured),
        reached=reached,
        state=named(first.state).where,
        against=named(first.against).where,
        sure=sure,
        all_sure=len(sure) == len(of_pair),
    )
    return {"sentences": said, "figure": _both(rows_by_share)}


def _both(rows: pd.DataFrame) -> figures.Figure:
    """The first state of each rate, in one figure."""
    first = rows.groupby("measure")["state"].transform("min")
    shown = rows[rows["state"] == first]
    shown = shown.assign(rate=[f"{groups.Measure.of(measure).name}s" for measure in shown["measure"]])
    labels = {f"{name}s": f"{name}s" for name, _, _ in by_measure(rows)}
    return _over_share("What is left, by the share that is measured", rows, shown, "rate", labels)


def _table(frame: pd.DataFrame) -> list[list[str]]:
    """Extents of the measured files, a row a share, a column a state."""
    states = sorted(frame["state"].unique())
    extents = frame.assign(share=shares(frame)).pivot_table(
        index="share", columns="state", values="measured_extents", aggfunc="median"
    )
    table = [["measured, %", *map("{}, extents".format, states)]]
    for level, row in extents.reindex(columns=states).iterrows():
        table.append([f"{level:g}", *map("{:g}".format, row)])
    return table


EQUAL_WITHIN_POINTS = 3.0
"""An unfragmented state counts as equally full when its real fullness differs by less than this."""
CLASS_PERCENT = 20  # of real fullness
POSITION = "mean position of the measured files (0: first block, 1: last)"


def at_equal_fullness(data: Data) -> Section | None:
    """Bandwidth over real fullness, and every fragmented state over the equally full unfragmented one."""
    rows = largest_transfer(main_rows(data))
    if not (rows["fragmentation_percent"] > 0).any() or not (rows["fragmentation_percent"] == 0).any():
        return None
    plots: list[figures.Figure] = []
    for name, unit, part in by_measure(rows):
        whole = part[part["fragmentation_percent"] == 0]
        broken = part[part["fragmentation_percent"] > 0]
        plots.append(_over_fullness(rows, part, f"{name} bandwidth", unit))
        equal = against_equally_full(broken, whole)
        if equal["capacity_percent"].nunique() > 1:  # one capacity alone is beside over_fragmentation
            plots.append(_factor_plane(RELATIVE.format(name.capitalize()), equal))
    text = (
        f"{transfers(rows)} transfers. The distance below the unfragmented line is the cost of fragmentation alone. "
        "With several fragmented capacities, each state is divided by the unfragmented state of equal real fullness "
        f"(within {EQUAL_WITHIN_POINTS:g} points). The interval inverts the exact rank test; none: that state was not "
        "measured. "
    )
    return Section("Fragmentation apart from fullness", text + note(rows), plots)


def against_equally_full(broken: pd.DataFrame, whole: pd.DataFrame) -> pd.DataFrame:
    """Rows of `broken` over the row of `whole` with the same parameters that is equally full; others are left out.

    The columns median, low, high and n are those of the factor; `against` names the unfragmented state.
    """
    rows = []
    for row in broken.to_dict("records"):
        peers = whole[(whole["params"] == row["params"]) & (whole["measure"] == row["measure"])]
        distance = (peers["real_fullness_percent"] - row["real_fullness_percent"]).abs()
        if distance.empty or distance.min() >= EQUAL_WITHIN_POINTS:
            continue
        peer = peers.loc[distance.idxmin()]
        result = statistics.factor(row["units"], peer["units"])
        n = min(result.n, result.n_reference)
        rows.append({**row, **groups.plotted(result), "n": n, "against": peer["state"]})
    return pd.DataFrame(rows, columns=[*broken.columns, "against"])


def factor_lines(title: str, equal: pd.DataFrame) -> figures.Figure:
    """Factors over BB, a line a transfer size, with 1 as the level to compare with."""
    x = levels_axis(equal, "fragmentation_percent", FRAGMENTATION)
    y = figures.Axis.around("factor (1 = as unfragmented)", equal, 1.0)
    labels = groups.params_labels(equal)
    return figures.lines(
        title, equal, "params", x, y, at="fragmentation_percent", labels=labels, levels=[figures.Level(1.0)]
    )


def _over_fullness(rows: pd.DataFrame, part: pd.DataFrame, what: str, unit: str) -> figures.Figure:
    """The unfragmented states, and of the fragmented ones those of a few capacities, a line each."""
    broken = part[part["fragmentation_percent"] > 0]
    chosen = spread(broken["capacity_percent"], 4)[-3:]  # the emptiest lie all in one corner
    labels = {"": "unfragmented", **{f"{level:g}": f"AA = {level:g}" for level in chosen}}
    line = part["capacity_percent"].map("{:g}".format).where(part["fragmentation_percent"] > 0, "")
    x = figures.Axis(FULLNESS)
    y = figures.Axis.around(f"{what}, {unit}", rows)
    title = f"{what.capitalize()} over real fullness"
    return figures.lines(title, part.assign(line=line), "line", x, y, at="real_fullness_percent", labels=labels)


def _factor_plane(title: str, equal: pd.DataFrame) -> figures.Plane:
    drawn = []
    for row in places(equal).to_dict("records"):
        says = f"{row['state']} over {row['against']}: {row['median']:.3f}"
        if pd.notna(row["low"]):
            says += f" ({row['low']:.3f} to {row['high']:.3f})"
        drawn.append(place(row, f"{says}, n = {row['n']}"))
    x = figures.Axis(CAPACITY)
    y = figures.Axis(FRAGMENTATION)
    return figures.Plane(title, tuple(drawn), x, y, empty="none", factor=True)


def position(data: Data) -> Section | None:
    """Bandwidth over the mean position, at the largest transfer, where the device has positions.

    None on a modelled device, unless it has tracks.
    """
    if not data.has_places:
        return None
    rows = _with_position(largest_transfer(main_rows(data)), data.usual)
    if rows["position"].nunique() < 2:
        return None
    plots = []
    for name, unit, part in by_measure(rows):
        title = f"{name.capitalize()} bandwidth over the physical position"
        y = figures.Axis.around(f"{name} bandwidth, {unit}", rows)
        plots.append(_by_kind(title, part, figures.Axis(POSITION), y, "position"))
    text = (
        f"{transfers(rows)} transfers. A disk is faster on its outer tracks, the low addresses, and a filling file "
        "system moves on to the inner ones. States of one fullness show what the position costs. States at one "
        "position show what fullness costs, and those with holes below show what holes cost. "
    )
    return Section("The physical position", text + note(rows), plots)


def _with_position(rows: pd.DataFrame, usual: pd.DataFrame) -> pd.DataFrame:
    """Rows whose measured files have a known place, with `position` (median)."""
    located = usual.dropna(subset="measured_mean_position")
    positions = located.groupby(["state", "params"])["measured_mean_position"].agg(position="median")
    return rows.merge(positions, left_on=["state", "params"], right_index=True)


def _by_kind(title: str, rows: pd.DataFrame, x: figures.Axis, y: figures.Axis, at: str) -> figures.Figure:
    """A series for each class of real fullness, with and without holes: what moves with the place is told from it."""
    classes = ((rows["real_fullness_percent"] / CLASS_PERCENT).round() * CLASS_PERCENT).astype(int)
    holes = rows["fragmentation_percent"] > 0
    kinds = {
        (middle, with_holes): f"about {middle}% full{', with holes' * with_holes}"
        for middle in sorted(classes.unique())
        for with_holes in (False, True)
    }
    kind = [kinds[key] for key in zip(classes, holes, strict=True)]
    labels = {label: label for label in kinds.values()}
    return figures.lines(title, rows.assign(kind=kind), "kind", x, y, at=at, labels=labels, joined=False)
