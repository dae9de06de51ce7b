"""Rates over fullness, one plot a preallocation size, and what share of the clean rate is left."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import compared, counts, measure_label
from fsage.figures import Axis, Figure, Level, Lines, limits, limits_with_zero, series
from fsage.report.section import Data, Section
from fsage.studies.prealloc.report.rows import FULLNESS, aged, rows_of

PUBLISHED_PERCENT = {"write": 89.0, "read": 82.0}
"""Least share of a clean file system's rate at 8 MiB, in the source."""
LEAST_POINTS = 10.0


def rates(data: Data) -> Section | None:
    """Write and read rates as files are deleted; beside each line the level of the clean section."""
    rows = rows_of(data)
    if aged(rows)["x"].nunique() < 2:
        return None
    figures: list[Figure] = []
    for size, part in rows.groupby("size", sort=False):
        drawn, levels = [], []
        for measure, of_measure in part.groupby("measure", sort=False):
            name = f"{measure_label(str(measure))[0]}s"
            drawn.append(series(name, aged(of_measure)))
            levels += [
                Level(value, f"{name}, clean", of=name)
                for value in of_measure.loc[of_measure["deleted"] == 0, "median"]
            ]
        title = f"Rates over fullness, preallocation of {size}"
        y = Axis("bandwidth, MiB/s", limits(rows))
        figures.append(Lines(title, tuple(drawn), Axis(FULLNESS), y, tuple(levels)))
    text = (
        "Files were written together, their pieces in turns, until the target was full. Then one file after another "
        "was deleted in a random order. After each, the same amount was written into the free space and read. Right "
        f"is full. n = {counts(aged(rows))} a point."
    )
    return Section("Rates as the file system empties", text, figures)


def share_of_clean(data: Data) -> Section | None:
    """Each size's rate over its clean one, with the published bounds."""
    rows = aged(rows_of(data))
    rows = compared(rows, "value")
    if rows["x"].nunique() < 2:
        return None
    rows = share_rows(rows)
    figures: list[Figure] = []
    for measure, part in rows.groupby("measure", sort=False):
        name = measure_label(str(measure))[0]
        bound = PUBLISHED_PERCENT.get(name)
        figures.append(
            Lines(
                f"{name.capitalize()}s, share of the clean rate",
                tuple(series(str(size), of_size) for size, of_size in part.groupby("size", sort=False)),
                Axis(FULLNESS),
                Axis("share of the clean rate, %", limits_with_zero(rows, LEAST_POINTS)),
                () if bound is None else (Level(bound),),
            )
        )
    bounds = " and ".join(f"{name}s ≥ {bound:g}%" for name, bound in PUBLISHED_PERCENT.items())
    text = (
        "The median of all pairwise ratios to the same size's clean section, with the interval that inverts the exact "
        f"rank-sum test. The grey line is what was published for 8 MiB: {bounds} of a clean file system. "
        + _found(rows)
    )
    return Section("What share of the clean rate is left", text, figures)


def share_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with what share of the clean rate they are in place of the rate, in percent."""
    held = [row.interval for row in rows["to_clean"]]
    return rows.assign(
        median=[100 * row.value for row in rows["to_clean"]],
        low=[100 * interval.low if interval else float("nan") for interval in held],
        high=[100 * interval.high if interval else float("nan") for interval in held],
        samples=[[] for _ in held],
    )


def _found(rows: pd.DataFrame) -> str:
    """The worst share at each size, in words."""
    words = []
    for size, part in rows.groupby("size", sort=False):
        worst = part.loc[part.groupby("measure", sort=False)["median"].idxmin()]
        shares = ", ".join(
            f"{measure_label(itertuple.measure)[0]}s {itertuple.median:.0f}% (at {itertuple.state})"
            for itertuple in worst.itertuples()
        )
        words.append(f"{size}: {shares}")
    return "Least here: " + "; ".join(words) + "."
