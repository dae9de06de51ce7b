"""Fragmentation apart from fullness, position and the amount that is measured.

How much of the target is measured, and what that does to the loss.

Fragmentation apart from fullness, and the physical position apart from both.

Fragmented states stand beside unfragmented ones that are equally full. A disk is faster on its outer tracks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from fsage.analysis.comparisons import at_largest_transfer, comparisons, stamp
from fsage.analysis.conditions import labelled
from fsage.analysis.groups import factors, of_ratio, params_labels, samples
from fsage.analysis.truth import planted
from fsage.analysis.words import doing, joined
from fsage.base.sizes import ratio_text
from fsage.dataset import unpacked
from fsage.figures import Axis, Figure, Level, Lines, Place, Plane, limits, lines
from fsage.report.parts import Data, Named, Section
from fsage.statistics import factor
from fsage.studies.paf.report.rows import (
    CAPACITY,
    FRAGMENTATION,
    FULLNESS,
    RELATIVE,
    by_measure,
    factor_axis,
    largest_transfer,
    levels_axis,
    main_rows,
    note,
    places,
    spread,
    transfers,
)
from fsage.study.study import Study

SHARE = "share of the capacity that is measured, %"


def several_amounts(rows: pd.DataFrame) -> bool:
    """Whether the study compares shares of the target."""
    return shares(rows).nunique() > 1


def shares(rows: pd.DataFrame) -> pd.Series:
    """What share of the capacity is measured, in percent."""
    return unpacked(rows, "param", "amount_percent")["amount_percent"].astype("float64")


def amount(data: Data) -> Section | None:
    """Each state over the one that it is compared with, over the share that is measured."""
    if not several_amounts(data.table):
        return None
    rows = factors(main_rows(data))
    if rows.empty:
        return None
    rows = rows.assign(x=shares(rows)).sort_values("x")
    text = (
        f"Each state over {rows['clean'].iloc[0]} with as much measured: below 1 is a loss. Who writes little may find "
        "whole runs where who writes much has to take the holes: the table has in how many extents the files lie."
    )
    x = levels_axis(rows, "x", SHARE)
    y = factor_axis(rows)
    equal = [Level(1.0)]
    states = {state: state for state in sorted(rows["state"].unique())}
    figures = [
        lines(
            f"{name.capitalize()}s against the share that is measured", part, "state", x, y, labels=states, levels=equal
        )
        for name, _, part in by_measure(rows)
    ]
    return Section("How much is measured", text, figures, table=_table(samples(data.frame)))


def details(data: Data, study: Study, named: Callable[[str], Named]) -> dict[str, Any]:
    """Sentences and figure of the answer: what each share of the target shows of the first pair that is compared."""
    rows = at_largest_transfer(data.frame)
    percents = dict(zip(rows["params"].map(params_labels(rows)), shares(rows), strict=True))
    compared = [comparison for comparison in comparisons(data.frame, study) if comparison.ratio.value is not None]
    section = amount(data)
    if not compared or section is None:
        return {}
    of_pair = [
        comparison
        for comparison in compared
        if (comparison.state, comparison.against) == (compared[0].state, compared[0].against)
    ]
    rates = []
    for measure in dict.fromkeys(comparison.measure for comparison in of_pair):
        reached = [
            f"{ratio_text(comparison.ratio.value or 0)}x" for comparison in of_pair if comparison.measure == measure
        ]
        rates.append(f"{doing(measure)} reaches {joined(reached)}")
    measured = joined(
        [f"{percents[fromkey]:g}%" for fromkey in dict.fromkeys(comparison.params for comparison in of_pair)]
    )
    state = named(of_pair[0].state).where
    against = named(of_pair[0].against).where
    sure = [
        f"{doing(comparison.measure)} with {percents[comparison.params]:g}%"
        for comparison in of_pair
        if comparison.finding.sure
    ]
    if len(sure) == len(of_pair):
        beyond = "all of them"
    else:
        beyond = joined(sure) or "none of them"
    return {
        "sentences": [
            f"With {measured} of the target measured, {joined(rates)} of the reference. That is {state}. The reference "
            f"is the rate {against}.",
            f"Beyond chance {'is' if len(sure) < 2 else 'are'} {beyond}.",
        ],
        "figure": _both(section.figures),
    }


def _both(figures: Sequence[Figure]) -> Lines:
    """The first state of each rate, in one figure."""
    drawn = [figure for figure in figures if isinstance(figure, Lines)]
    both_lines = tuple(replace(line.series[0], label=line.title.split()[0].lower()) for line in drawn)
    return replace(drawn[0], title="What is left, by the share that is measured", series=both_lines)


def _table(frame: pd.DataFrame) -> list[list[str]]:
    """Extents of the measured files, a row a share, a column a state."""
    states = sorted(frame["state"].unique())
    extents = frame.assign(share=shares(frame)).pivot_table(
        index="share", columns="state", values="measured_extents", aggfunc="median"
    )
    return [
        ["measured, %", *(f"{state}, extents" for state in states)],
        *(
            [f"{level:g}", *(f"{row.get(state, float('nan')):g}" for state in states)]
            for level, row in extents.iterrows()
        ),
    ]


EQUAL_WITHIN_POINTS = 3.0
"""An unfragmented state counts as equally full when its real fullness differs by less than this."""
CLASS_PERCENT = 20  # of real fullness
POSITION = "mean position of the measured files (0: first block, 1: last)"


def at_equal_fullness(data: Data) -> Section | None:
    """Bandwidth over real fullness, and every fragmented state over the equally full unfragmented one."""
    rows = largest_transfer(main_rows(data))
    if not (rows["fragmentation_percent"] > 0).any() or not (rows["fragmentation_percent"] == 0).any():
        return None
    figures: list[Figure] = []
    for name, unit, part in by_measure(rows):
        whole = part[part["fragmentation_percent"] == 0]
        broken = part[part["fragmentation_percent"] > 0]
        figures.append(_over_fullness(rows, part, f"{name} bandwidth", unit))
        equal = against_equally_full(broken, whole)
        if equal["capacity_percent"].nunique() > 1:  # one capacity alone is beside over_fragmentation
            figures.append(_factor_plane(RELATIVE.format(name.capitalize()), equal))
    text = (
        f"{transfers(rows)} transfers. The distance below the unfragmented line is the cost of fragmentation alone. "
        "With several fragmented capacities, each state is divided by the unfragmented state of equal real fullness "
        f"(within {EQUAL_WITHIN_POINTS:g} points). The interval inverts the exact rank test; none: that state was not "
        "measured. "
    )
    return Section("Fragmentation apart from fullness", text + note(rows), figures)


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
        result = factor(row["units"], peer["units"])
        n = min(result.n, result.n_reference)
        rows.append({**row, **of_ratio(result), "n": n, "against": peer["state"]})
    return pd.DataFrame(rows, columns=[*broken.columns, "against"])


def factor_lines(title: str, equal: pd.DataFrame) -> Lines:
    """Factors over BB, a line a transfer size, with 1 as the level to compare with."""
    x = levels_axis(equal, "fragmentation_percent", FRAGMENTATION)
    y = Axis("factor (1 = as unfragmented)", limits(pd.concat([equal, equal.assign(median=1.0)])))
    labels = params_labels(equal)
    return lines(title, equal, "params", x, y, at="fragmentation_percent", labels=labels, levels=[Level(1.0)])


def _over_fullness(rows: pd.DataFrame, part: pd.DataFrame, what: str, unit: str) -> Lines:
    """The unfragmented states, and of the fragmented ones those of a few capacities, a line each."""
    broken = part[part["fragmentation_percent"] > 0]
    chosen = spread(broken["capacity_percent"], 4)[-3:]  # the emptiest lie all in one corner
    labels = {"": "unfragmented", **{f"{level:g}": f"AA = {level:g}" for level in chosen}}
    line = part["capacity_percent"].map("{:g}".format).where(part["fragmentation_percent"] > 0, "")
    x = Axis(FULLNESS)
    y = Axis(f"{what}, {unit}", limits(rows))
    title = f"{what.capitalize()} over real fullness"
    return lines(title, part.assign(line=line), "line", x, y, at="real_fullness_percent", labels=labels)


def _factor_plane(title: str, equal: pd.DataFrame) -> Plane:
    drawn_places = tuple(
        Place(row.x, row.y, row.median, row.n, *_ends(row), says=_says(row)) for row in places(equal).itertuples()
    )
    return Plane(title, drawn_places, Axis(CAPACITY), Axis(FRAGMENTATION), empty="none", factor=True)


def _ends(row: Any) -> tuple[float | None, float | None]:
    if pd.isna(row.low):
        return (None, None)
    return (row.low, row.high)


def _says(row: Any) -> str:
    if pd.isna(row.low):
        ends = ""
    else:
        ends = f" ({row.low:.3f} to {row.high:.3f})"
    return f"{row.state} over {row.against}: {row.median:.3f}{ends}, n = {row.n}"


def position(data: Data) -> Section | None:
    """Bandwidth over the mean position, at the largest transfer, where the device has positions.

    None on a modelled device, unless it has tracks.
    """
    if "modelled" in stamp(data.frame) and planted(data.frame) is None:
        return None
    rows = _with_position(largest_transfer(main_rows(data)), data.frame)
    if rows["position"].nunique() < 2:
        return None
    figures = []
    for name, unit, part in by_measure(rows):
        title = f"{name.capitalize()} bandwidth over the physical position"
        y = Axis(f"{name} bandwidth, {unit}", limits(rows))
        figures.append(_by_kind(title, part, Axis(POSITION), y, "position"))
    text = (
        f"{transfers(rows)} transfers. A disk is faster on its outer tracks, the low addresses, and a filling file "
        "system moves on to the inner ones. States of one fullness show what the position costs. States at one "
        "position show what fullness costs, and those with holes below show what holes cost. "
    )
    return Section("The physical position", text + note(rows), figures)


def _with_position(rows: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows whose measured files have a known place, with `position` (median)."""
    valid_rows = labelled(samples(frame))
    located = valid_rows[valid_rows["main"]].dropna(subset="measured_mean_position")
    positions = located.groupby(["state", "params"])["measured_mean_position"].agg(position="median")
    return rows.merge(positions, left_on=["state", "params"], right_index=True)


def _by_kind(title: str, rows: pd.DataFrame, x: Axis, y: Axis, at: str) -> Lines:
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
    return lines(title, rows.assign(kind=kind), "kind", x, y, at=at, labels=labels, joined=False)
