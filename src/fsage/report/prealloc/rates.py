"""Rates over fullness, one plot a preallocation size, and what share of the clean rate is left."""

from __future__ import annotations

import pandas as pd

from fsage.figures import Line, limits, limits_with_zero, line_panel
from fsage.report.groups import compared, counts, measure_label
from fsage.report.prealloc.rows import FULLNESS, aged, rows_of
from fsage.report.section import Data, Section

PUBLISHED_PERCENT = {"write": 89.0, "read": 82.0}
"""Least share of a clean file system's rate at 8 MiB, in the source."""
LEAST_POINTS = 10.0


def rates(data: Data) -> Section | None:
    """Write and read rates as files are deleted; beside each line the level of the clean section."""
    rows = rows_of(data)
    if aged(rows)["x"].nunique() < 2:
        return None
    panels = []
    for size, part in rows.groupby("size", sort=False):
        lines = []
        for measure, mine in part.groupby("measure", sort=False):
            name = measure_label(str(measure))[0]
            lines.append(Line(f"{name}s", aged(mine)))
            clean = mine[mine["deleted"] == 0]
            if len(clean):
                ends = aged(mine)["x"]
                level = pd.concat([clean.assign(x=ends.min()), clean.assign(x=ends.max(), samples=[[]])])
                lines.append(Line(f"{name}s, clean", level.assign(low=float("nan"), high=float("nan"), n=float("nan"))))
        title = f"Rates over fullness, preallocation of {size}"
        panels.append(line_panel(title, lines, FULLNESS, "bandwidth, MiB/s", data.stamp, y_limits=limits(rows)))
    text = (
        "Files were written at once, their pieces in turns, until the target was full; then one after the other was "
        "deleted in a random order, and each time the same amount was written and read in what was free. Right is "
        f"full. n = {counts(aged(rows))} a point."
    )
    return Section("Rates as the file system empties", text, panels)


def share_of_clean(data: Data) -> Section | None:
    """Each size's rate over its clean one, with the published bounds."""
    rows = aged(rows_of(data))
    rows = compared(rows, "value")
    if rows["x"].nunique() < 2:
        return None
    held = [one.interval for one in rows["to_clean"]]
    rows = rows.assign(
        median=[100 * one.value for one in rows["to_clean"]],
        low=[100 * one.low if one else float("nan") for one in held],
        high=[100 * one.high if one else float("nan") for one in held],
        samples=[[] for _ in held],
    )
    panels = []
    for measure, part in rows.groupby("measure", sort=False):
        name = measure_label(str(measure))[0]
        bound = PUBLISHED_PERCENT.get(name)
        panels.append(
            line_panel(
                f"{name.capitalize()}s, share of the clean rate",
                [Line(size, mine) for size, mine in part.groupby("size", sort=False)],
                FULLNESS,
                "share of the clean rate, %",
                data.stamp,
                y_limits=limits_with_zero(rows, LEAST_POINTS),
                reference=bound,
            )
        )
    bounds = " and ".join(f"{name}s ≥ {bound:g}%" for name, bound in PUBLISHED_PERCENT.items())
    text = (
        "The median of all pairwise ratios to the same size's clean section, with the interval that inverts the exact "
        f"rank-sum test. The grey line is what was published for 8 MiB: {bounds} of a clean file system. "
        + _found(rows)
    )
    return Section("What share of the clean rate is left", text, panels)


def _found(rows: pd.DataFrame) -> str:
    """The worst share at each size, in words."""
    words = []
    for size, part in rows.groupby("size", sort=False):
        worst = part.loc[part.groupby("measure", sort=False)["median"].idxmin()]
        shares = ", ".join(
            f"{measure_label(one.measure)[0]}s {one.median:.0f}% (at {one.state})" for one in worst.itertuples()
        )
        words.append(f"{size}: {shares}")
    return "Least here: " + "; ".join(words) + "."
