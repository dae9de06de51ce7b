"""Fragmentation apart from fullness: fragmented states beside unfragmented ones that are equally full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fsage.figures import Axis, Figure, Level, Lines, Place, Plane, Series, limits, series
from fsage.report.section import Data, Section
from fsage.statistics import ratio
from fsage.studies.paf.report.plane import places
from fsage.studies.paf.report.rows import (
    CAPACITY,
    FRAGMENTATION,
    FULLNESS,
    by_measure,
    largest_transfer,
    levels,
    lines,
    main_rows,
    note,
    spread,
    transfers,
)

EQUAL_WITHIN_POINTS = 3.0
"""An unfragmented state counts as equally full when its real fullness differs by less than this."""


def at_equal_fullness(data: Data) -> Section | None:
    """Bandwidth over real fullness, and every fragmented state over the equally full unfragmented one."""
    rows = largest_transfer(main_rows(data))
    if not (rows["fragmentation_percent"] > 0).any() or not (rows["fragmentation_percent"] == 0).any():
        return None
    figures: list[Figure] = []
    for name, unit, part in by_measure(rows):
        whole = part[part["fragmentation_percent"] == 0]
        broken = part[part["fragmentation_percent"] > 0]
        figures.append(_over_fullness(rows, whole, broken, f"{name} bandwidth", unit))
        equal = against_equally_full(broken, whole)
        if equal["capacity_percent"].nunique() > 1:  # one capacity alone is beside over_fragmentation
            title = f"{name.capitalize()}s, fragmented over equally full"
            figures.append(_factor_plane(title, equal))
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
        result = ratio(row["samples"], peer["samples"])
        held = result.interval
        ends = {"low": held.low if held else None, "high": held.high if held else None}
        n = min(result.n, result.n_reference)
        rows.append({**row, "median": result.value, **ends, "n": n, "samples": [], "against": peer["state"]})
    columns = [*broken.columns, "against"]
    return pd.DataFrame(rows, columns=columns).astype({"low": "float64", "high": "float64"})


def factors(title: str, drawn: Sequence[Series], equal: pd.DataFrame) -> Lines:
    """Factors over BB, with 1 as the level to compare with."""
    return Lines(
        title,
        tuple(drawn),
        Axis(FRAGMENTATION, ticks=levels(equal, "fragmentation_percent")),
        Axis("factor (1 = as unfragmented)", limits(pd.concat([equal, equal.assign(median=1.0)]))),
        (Level(1.0),),
    )


def _over_fullness(rows: pd.DataFrame, whole: pd.DataFrame, broken: pd.DataFrame, what: str, unit: str) -> Lines:
    chosen = spread(broken["capacity_percent"], 4)[-3:]  # the emptiest lie all in one corner
    shown = broken[broken["capacity_percent"].isin(chosen)]
    labels = {level: f"AA = {level:g}" for level in chosen}
    return Lines(
        f"{what.capitalize()} over real fullness",
        (
            series("unfragmented", whole.assign(x=whole["real_fullness_percent"])),
            *lines(shown, "real_fullness_percent", labels, "capacity_percent"),
        ),
        Axis(FULLNESS),
        Axis(f"{what}, {unit}", limits(rows)),
    )


def _factor_plane(title: str, equal: pd.DataFrame) -> Plane:
    drawn_places = tuple(
        Place(row.x, row.y, row.median, row.n, *_ends(row), says=_says(row)) for row in places(equal).itertuples()
    )
    return Plane(title, drawn_places, Axis(CAPACITY), Axis(FRAGMENTATION), empty="none", factor=True)


def _ends(row: Any) -> tuple[float | None, float | None]:
    return (None, None) if pd.isna(row.low) else (row.low, row.high)


def _says(row: Any) -> str:
    ends = "" if pd.isna(row.low) else f" ({row.low:.3f} to {row.high:.3f})"
    return f"{row.state} over {row.against}: {row.median:.3f}{ends}, n = {row.n}"
