"""How the measured files lay: their mean extent over fullness, and the sizes of their extents."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable

import pandas as pd

from fsage.analysis.conditions import labelled
from fsage.analysis.groups import samples
from fsage.figures import Axis, Bars, Figure, Lines, series
from fsage.report.section import Data, Section
from fsage.studies.prealloc.report.rows import FULLNESS, aged, rows_of
from fsage.text.sizes import round_size


def contiguity(data: Data) -> Section | None:
    """Mean extent of the measured files over fullness, a line a preallocation size."""
    rows = aged(rows_of(data))
    rows = rows[rows["measure"] == rows["measure"].iloc[0]] if len(rows) else rows
    medians = mean_extents_mib(data)
    points = rows[rows["state"].isin(medians.index)]
    if points["x"].nunique() < 2:
        return None
    points = points.assign(
        median=points["state"].map(medians),
        low=float("nan"),
        high=float("nan"),
        n=float("nan"),
        samples=[[] for _ in range(len(points))],
    )
    figure = Lines(
        "Mean extent of the measured files",
        tuple(series(str(size), part) for size, part in points.groupby("size", sort=False)),
        Axis(FULLNESS),
        Axis("mean extent, MiB", ticks=_powers(points["median"]), log=True),
    )
    text = "Medians over the iterations. A file that is written into what one deleted file left takes its pieces."
    return Section("Contiguity of what was measured", text, [figure])


def extent_sizes(data: Data) -> Section | None:
    """Histogram of the extents of the measured files: each size clean, fullest and emptiest."""
    rows, measured_rows = rows_of(data), _measured(data)
    figures: list[Figure] = []
    for size, part in rows.groupby("size", sort=False):
        filled = aged(part).sort_values("x", kind="stable", ascending=False)["state"].unique()
        states = [*part.loc[part["deleted"] == 0, "state"].unique(), *dict.fromkeys([*filled[:1], *filled[-1:]])]
        by_state = {
            state: _classes(measured_rows.loc[measured_rows["state"] == state, "measured_extents_of_size"])
            for state in states
        }
        by_state = {state: classes for state, classes in by_state.items() if classes}
        if by_state:
            figures.append(_histogram(str(size), by_state))
    text = "The share of the measured files' bytes, about, by the size of the extent that they lay in; all iterations."
    return Section("Sizes of the measured extents", text, figures) if figures else None


def mean_extents_mib(data: Data) -> pd.Series:
    """State -> the mean extent of its measured files, the median over the iterations; without what is not known."""
    return (_measured(data).groupby("state")["measured_mean_extent_bytes"].median() / (1 << 20)).dropna()


def _measured(data: Data) -> pd.DataFrame:
    valid_rows = labelled(samples(data.frame))
    return valid_rows[valid_rows["main"]]


def _classes(texts: Iterable[str]) -> Counter[int]:
    """Size class in bytes -> extents, over all iterations."""
    classes: Counter[int] = Counter()
    for text in texts:
        if isinstance(text, str):
            classes.update({int(size): number for size, number in json.loads(text).items()})
    return classes


def _histogram(size: str, by_state: dict[str, Counter[int]]) -> Bars:
    seen = {extent_size for classes in by_state.values() for extent_size in classes}
    sizes = [1 << power for power in range(int(math.log2(min(seen))), int(math.log2(max(seen))) + 1)]
    # The middle of a class is about 1.5 times its lower end, the same factor in all: it does not change a share.
    weights = {
        state: {extent_size: extent_size * classes[extent_size] for extent_size in sizes}
        for state, classes in by_state.items()
    }
    return Bars(
        f"Extents of the measured files, preallocation of {size}",
        tuple(round_size(extent_size) for extent_size in sizes),
        {
            state: tuple(100 * by[extent_size] / sum(by.values()) for extent_size in sizes)
            for state, by in weights.items()
        },
        Axis("size of an extent, from (each class up to twice that)"),
        Axis("share of the measured bytes, %"),
    )


def _powers(values: pd.Series) -> dict[float, str]:
    """The powers of two that the values lie between, as ticks."""
    least, most = math.floor(math.log2(values.min())), math.ceil(math.log2(values.max()))
    return {2.0**power: f"{2.0**power:g}" for power in range(least, most + 1)}
