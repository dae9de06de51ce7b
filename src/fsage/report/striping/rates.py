"""Throughput of each phase in each layout, and the speed-up over the default one; static beside dynamic."""

from __future__ import annotations

import pandas as pd

from fsage.figures import Line, Panel, limits, line_panel
from fsage.report.groups import measure_label
from fsage.report.section import Data, Section
from fsage.report.striping.rows import rows_of, ticks_of

PUBLISHED = (
    "Published, for 16 nodes on a large Lustre: IOR.4 to IOR.6 read faster than IOR.1 to IOR.3, and write at least as "
    "fast, IOR.4 as IOR.1, IOR.5 as IOR.2, IOR.6 as IOR.3. "
)
MARGIN = 0.08
"""Of the highest value, above it."""


def throughput(data: Data) -> Section | None:
    """Medians with their intervals, a figure for each phase."""
    rows = rows_of(data)
    if rows.empty:
        return None
    panels = [
        _panel(f"{name} throughput", part, "MiB/s", data.stamp, (0.0, limits(part)[1])) for name, part in _phases(rows)
    ]
    counts = sorted(rows["n"].unique())
    text = (
        "One shared file, written, then read, by a task for each of its objects, the tasks of all segments at once: "
        "all bytes by the time from the first task's start to the last one's end. Static layouts have one stripe count "
        "and size throughout, dynamic ones change it at watermarks. The model of the device is of each OST. "
        + (PUBLISHED if rows["state"].str.startswith("IOR.").any() else "")
        + f"n = {', '.join(map(str, counts))}."
    )
    return Section("Throughput of each layout", text, panels)


def speed_up(data: Data) -> Section | None:
    """Ratios to the default layout with their intervals, and in words what was best."""
    rows = rows_of(data)
    rows = rows[[one is not None and one.value is not None for one in rows["to_clean"]]]
    if rows.empty:
        return None
    default = rows["reference"].iloc[0]
    held = [one.interval for one in rows["to_clean"]]
    rows = rows.assign(
        median=[one.value for one in rows["to_clean"]],
        low=[one.low if one else float("nan") for one in held],
        high=[one.high if one else float("nan") for one in held],
        samples=[[] for _ in held],
    )
    highest = max(1.0, rows[["median", "high"]].max().max())
    panels = [
        _panel(f"{name} speed-up over {default}", part, "times", data.stamp, (0.0, highest * (1 + MARGIN)), 1.0)
        for name, part in _phases(rows)
    ]
    text = (
        f"The median of all pairwise ratios to {default}, the default layout, with the interval that inverts the exact "
        f"rank-sum test. {_best(rows)}"
    )
    return Section("Speed-up over the default layout", text, panels)


def _phases(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    return [(measure_label(str(name))[0].capitalize(), part) for name, part in rows.groupby("measure", sort=False)]


def _panel(
    title: str, part: pd.DataFrame, unit: str, stamp: str, y_limits: tuple[float, float], reference: float | None = None
) -> Panel:
    lines = [Line(str(kind), points, joined=False) for kind, points in part.groupby("line", sort=False)]
    ticks, axis = ticks_of(part)
    return line_panel(title, lines, axis, unit, stamp, y_limits=y_limits, ticks=ticks, reference=reference)


def _best(rows: pd.DataFrame) -> str:
    """The fastest static and dynamic layout of each phase, in words; whether one beats the other is the headline's."""
    found = []
    for name, part in _phases(rows):
        best = [part.loc[mine["median"].idxmax()] for _, mine in part.groupby("kind", sort=False)]
        said = ", ".join(f"{one['state']} ({one['kind']}, {one['median']:.3g}x)" for one in best)
        found.append(f"{name.lower()}s: {said}")
    return f"Fastest here, {'; '.join(found)}."
