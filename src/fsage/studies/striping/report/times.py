"""How long each phase took, from first to last I/O: in each layout, and over the number of nodes."""

from __future__ import annotations

import json
import math

import pandas as pd

from fsage.analysis.groups import counts, medians
from fsage.figures import Axis, Figure, Lines, series
from fsage.report.section import Data, Section
from fsage.studies.striping.report.rows import described, layouts_axis, one_count_of_nodes

RATE, ENDING = "_bw_mib_s", "_seconds"
MARGIN = 0.08
PUBLISHED = (
    "Published, for 16 to 512 nodes: more stripes lengthen the run at scale, and the dynamic layout always beats 128 "
    "OSTs. "
)


def phase_times(data: Data) -> Section | None:
    """A figure for each phase, its layouts side by side."""
    rows = one_count_of_nodes(_rows(data))
    if rows.empty:
        return None
    figures: list[Figure] = []
    for name, part in rows.groupby("measure", sort=False):
        kinds = tuple(series(str(kind), points, joined=False) for kind, points in part.groupby("line", sort=False))
        figures.append(Lines(f"{_phase(str(name))} time", kinds, layouts_axis(part, data), Axis("s", _limits(part))))
    text = f"From the first task's first I/O to the last one's last; shorter is better. n = {counts(rows)}."
    return Section("Time of each phase", text, figures)


def scaling(data: Data) -> Section | None:
    """Time against the number of nodes, a line for each layout, where there are several numbers."""
    rows = _rows(data)
    if rows["nodes"].nunique() < 2:
        return None
    rows = rows.dropna(subset="nodes")
    rows = rows.assign(x=rows["nodes"].map(math.log2), layout=rows["state"] + " (" + rows["kind"] + ")")
    ticks = {math.log2(nodes): f"{nodes:g}" for nodes in sorted(rows["nodes"].unique())}
    figures: list[Figure] = []
    for name, part in rows.drop(columns="state").groupby("measure", sort=False):
        by = ["layout", "rest"] if part["rest"].nunique() > 1 else ["layout"]
        layouts = tuple(series(", ".join(map(str, key)), points) for key, points in part.groupby(by, sort=False))
        title = f"{_phase(str(name))} time over nodes"
        figures.append(Lines(title, layouts, Axis("nodes", ticks=ticks), Axis("s", _limits(part))))
    text = (
        "The same file, worked at by more nodes: a line for each layout, static ones with one stripe count throughout, "
        "dynamic ones with more from each watermark on. "
        + (PUBLISHED if rows["state"].str.startswith("scaling.").any() else "")
        + f"n = {counts(rows)}."
    )
    return Section("Time over the number of nodes", text, figures)


def _rows(data: Data) -> pd.DataFrame:
    """Medians of the seconds of each phase, as rows.described has them; those under the commonest conditions."""
    frame = data.frame[data.frame["recipe"] == "striping"]
    rates = [name for name in frame.columns if name.endswith(RATE) and frame[name].notna().any()]
    names = [name for rate in rates if (name := rate.removesuffix(RATE) + ENDING) in frame]
    rows = described(medians(frame, names), data.planned)
    return rows[rows["main"]].assign(nodes=[json.loads(text).get("nodes") for text in rows.loc[rows["main"], "params"]])


def _phase(measure: str) -> str:
    return measure.removesuffix(ENDING).replace("_", " ").capitalize()


def _limits(part: pd.DataFrame) -> tuple[float, float]:
    """From zero: what is compared is how long things take."""
    highest = max(
        *part["median"], *part["high"].dropna(), *(sample for samples in part["samples"] for sample in samples)
    )
    return 0.0, highest * (1 + MARGIN)
