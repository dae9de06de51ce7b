"""Where on the device the measured files lay: outer to inner tracks, separated from fragmentation."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.conditions import labelled
from fsage.analysis.groups import samples
from fsage.figures import Axis, Figure, Lines, Series, limits, series
from fsage.report.section import Data, Section
from fsage.studies.paf.report.rows import FULLNESS, by_measure, largest_transfer, main_rows, note, transfers

CLASS_PERCENT = 20  # of real fullness
POSITION = "mean position of the measured files (0: first block, 1: last)"


def position(data: Data) -> Section | None:
    """The mean position over real fullness, and bandwidth over that position, at the largest transfer."""
    rows = _with_position(largest_transfer(main_rows(data)), data.frame)
    if rows["position"].nunique() < 2:
        return None
    of_measure = rows[rows["measure"] == rows["measure"].iloc[0]]
    where = of_measure.assign(
        x=of_measure["real_fullness_percent"],
        median=of_measure["position"],
        low=float("nan"),
        high=float("nan"),
        samples=of_measure["positions"],
    )
    figures: list[Figure] = [
        Lines(
            "Position of the measured files over real fullness",
            _kinds(where),
            Axis(FULLNESS),
            Axis("mean position on the device (0 to 1)", (0, min(1.02, 1.2 * where["median"].max()))),
        )
    ]
    figures += [
        Lines(
            f"{name.capitalize()} bandwidth over the physical position",
            _kinds(part.assign(x=part["position"])),
            Axis(POSITION),
            Axis(f"{name} bandwidth, {unit}", limits(rows)),
        )
        for name, unit, part in by_measure(rows)
    ]
    text = (
        f"{transfers(rows)} transfers. A disk is faster on its outer tracks, the low addresses, and a filling file "
        "system moves on to the inner ones. States of one fullness show what the position costs. States at one "
        "position show what fullness costs, and those with holes below show what holes cost. A modelled device "
        "without zones has no tracks: differences there have another cause. "
    )
    return Section("The physical position", text + note(rows), figures)


def _with_position(rows: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """Rows whose measured files have a known place, with `position` (median) and `positions` (all samples)."""
    valid_rows = labelled(samples(frame))
    located = valid_rows[valid_rows["main"]].dropna(subset="measured_mean_position")
    positions = located.groupby(["state", "params"])["measured_mean_position"].agg(position="median", positions=list)
    return rows.merge(positions, left_on=["state", "params"], right_index=True)


def _kinds(rows: pd.DataFrame) -> tuple[Series, ...]:
    """A series for each class of real fullness, with and without holes: what moves with the place is told from it."""
    classes = (rows["real_fullness_percent"] // CLASS_PERCENT * CLASS_PERCENT).astype(int)
    kinds = []
    for low in sorted(classes.unique()):
        for holes in (False, True):
            part = rows[(classes == low) & ((rows["fragmentation_percent"] > 0) == holes)]
            label = f"{low} to {low + CLASS_PERCENT}% full{', with holes' if holes else ''}"
            kinds += [series(label, part, joined=False)] if len(part) else []
    return tuple(kinds)
