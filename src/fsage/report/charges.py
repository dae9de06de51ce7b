"""Where measured files lie, and whether that explains their time: extents over layouts, and time over jumps."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from fsage.analysis.headline import at_largest_transfer, of_state
from fsage.analysis.words import doing
from fsage.figures import Axis, Figure, Lines, Point, Series
from fsage.report.section import Section

MOST_STATES = 8
LEAST = 5
"""So many files, and different counts of jumps, a line through them needs."""
EXTENTS = "measured_extents"
JUMPS = "measured_jumps"
CHARGES = "model_seconds"
PHASES = ("write", "read")
HEADS = ["measure", "ms a jump", "at 95%", "charged", "r\u00b2", "files", "unexplained, %"]


def section(frame: pd.DataFrame, states: Sequence[str]) -> Section | None:
    """None where no file system tells where files lie. `states`: those that the study compares; none: all."""
    rows = at_largest_transfer(frame)
    figures = [figure for figure in (extents(rows, states), over_jumps(rows)) if figure]
    if not figures:
        return None
    table = slopes(rows)
    text = "Each stroke is a measured file, at the largest transfer."
    if table:
        text += (
            " A line goes through the time of all files over their jumps. Beside its slope stands what the device "
            "charges for a jump, in ms. Unexplained is the standard deviation about the line, as a share of the time."
        )
    return Section(
        "Where measured files lie", text, figures, table=[HEADS, *table] if table else [], front=len(figures)
    )


def extents(rows: pd.DataFrame, states: Sequence[str]) -> Figure | None:
    """The extents of each state's files over its layouts and places."""
    named = [(name, of_state(rows, name)) for name in dict.fromkeys(states or rows["state"])]
    known = [(name, taken[EXTENTS].dropna()) for name, taken in named if taken[EXTENTS].notna().any()][:MOST_STATES]
    if not known:
        return None
    points = tuple(
        Point(float(at), float(counts.median()), n=len(counts), samples=tuple(map(float, counts)))
        for at, (_, counts) in enumerate(known)
    )
    x = Axis("state", ticks={float(at): name.partition("@")[0] for at, (name, _) in enumerate(known)})
    top = max(value for point in points for value in point.samples)
    title = "Extents over layouts and places"
    return Lines(title, (Series("median and files", points, joined=False),), x, Axis("extents", (0.0, 1.1 * top)))


def over_jumps(rows: pd.DataFrame) -> Figure | None:
    """Time over jumps, and what the device charges where it is modelled."""
    if JUMPS not in rows or rows[JUMPS].nunique() < 2:
        return None
    columns = {f"{phase}_seconds": doing(f"{phase}_bw_mib_s") for phase in PHASES} | {CHARGES: "charged by the device"}
    series = []
    for column, label in columns.items():
        if column in rows:
            known = rows.dropna(subset=[column, JUMPS])
        else:
            known = rows.iloc[:0]
        points = tuple(
            Point(float(jumps), float(taken.median()), samples=tuple(map(float, taken)))
            for jumps, taken in known.groupby(JUMPS)[column]
        )
        if points:
            series.append(Series(label, points, joined=column == CHARGES))
    if not series:
        return None
    return Lines("Counts against time", tuple(series), Axis("jumps that are charged"), Axis("time of a file, s"))


def slopes(rows: pd.DataFrame) -> list[list[str]]:
    """A row a phase: a line through the time of all files over their jumps, beside what the device charges for one."""
    if JUMPS not in rows:
        return []
    rows = rows.assign(place=rows["place"].fillna(1) if "place" in rows else 1)
    return [row for phase in PHASES if (row := _slope(rows, phase))]


def _slope(rows: pd.DataFrame, phase: str) -> list[str]:
    seconds = f"{phase}_seconds"
    if seconds not in rows:
        return []
    charged = [CHARGES] if CHARGES in rows else []
    known = rows.dropna(subset=[seconds, JUMPS])
    files = known.groupby(["state", "layout_digest", "place"])[[seconds, JUMPS, *charged]].median().astype(float)
    if files[JUMPS].nunique() < LEAST:
        return []
    from scipy import stats

    line = stats.linregress(files[JUMPS], files[seconds])
    reach = stats.t.ppf(0.975, len(files) - 2) * line.stderr
    rest = files[seconds] - line.intercept - line.slope * files[JUMPS]
    of_model = files.dropna() if charged else files.iloc[:0]
    model = stats.linregress(of_model[JUMPS], of_model[CHARGES]).slope if len(of_model) >= LEAST else None
    return [
        phase,
        f"{1000 * line.slope:.2f}",
        f"{1000 * (line.slope - reach):.2f} to {1000 * (line.slope + reach):.2f}",
        "" if model is None else f"{1000 * model:.2f}",
        f"{line.rvalue**2:.3f}",
        str(len(files)),
        f"{100 * rest.std(ddof=2) / files[seconds].median():.1f}",
    ]
