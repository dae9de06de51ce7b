"""The report of preallocation studies: what share of the clean rate is left as files are deleted, and how files lie.

Rows are groups with `preallocation_bytes`, its name `size`, how many of `files` were `deleted` (0: clean), and `x`,
what is left of them in percent.
"""

from __future__ import annotations

from collections import Counter

import pandas as pd

from fsage.api.model import round_size
from fsage.api.report import Answer, Data, Section, View, dataset, figures, groups, words

PUBLISHED_PERCENT = {"writes": 89.0, "reads": 82.0}
"""Least share of a clean file system's rate at 8 MiB, in the source."""
LEAST_POINTS = 10.0
FULLNESS = figures.Axis("files left, % of the files that filled the target")
CODES = (
    "1M.05 is a target that was filled with files whose pieces of 1 MiB alternate; then 5 of them were deleted. "
    "1M.clean is the same size of preallocation on an empty target."
)


def rows_of(data: Data) -> pd.DataFrame:
    """The groups in the order of their preallocation, the fullest last."""
    rows = data.table.join(dataset.unpacked(data.table, "axis", "preallocation_bytes", "deleted", "files"))
    return rows.assign(
        size=rows["preallocation_bytes"].map(round_size),
        x=100 * (rows["files"] - rows["deleted"]) / rows["files"],
        rate=[groups.Measure.of(measure).plural for measure in rows["measure"]],
    ).sort_values(["preallocation_bytes", "x"], kind="stable")


def aged(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of states that were filled; the others are clean."""
    return rows[rows["deleted"] > 0]


def kept(rows: pd.DataFrame) -> pd.DataFrame:
    """Those that have a clean rate: `median`, `low` and `high` are what share of it they are, in percent."""
    rows = groups.factors(rows)
    return rows.assign(**{name: 100 * rows[name] for name in ("median", "low", "high")})


def answer(data: Data) -> Answer | None:
    """The smallest and the largest size at the fullest, writes and reads, and how long the pieces are there."""
    rows = kept(aged(rows_of(data)))
    rows = rows[rows["deleted"] == rows["deleted"].min()]
    if rows.empty:
        return None
    ends = list(dict.fromkeys(rows["size"].iloc[[0, -1]]))
    mean_extents = mean_extents_mib(data)
    mean_mib = []
    shares_kept = []
    kept_by_rate = {}
    for size in ends:
        of_size = rows[rows["size"] == size]
        mean_mib.append(mean_extents.get(of_size["state"].iloc[0]))
        shares_kept.append(of_size["median"].mean())
    for rate, part in rows[rows["size"].isin(ends)].groupby("rate", sort=False):
        kept_by_rate[rate] = part.to_dict("records")
    is_known = len(ends) > 1 and None not in mean_mib
    said = words.sentences(
        "prealloc/answer",
        deleted=f"{rows['deleted'].iloc[0]:g}",
        files=f"{rows['files'].iloc[0]:g}",
        ends=ends,
        kept=kept_by_rate,
        mean_mib=mean_mib if is_known else None,
        longer_keeps_more=is_known and (shares_kept[1] > shares_kept[0]) == (mean_mib[1] > mean_mib[0]),
    )
    by_size, sizes = figures.placed(rows, "size")
    y = figures.Axis.from_zero("share of the clean rate, %", rows, least=LEAST_POINTS)
    title = "Share of the clean rate on the fullest target"
    figure = figures.lines(
        title,
        by_size,
        "rate",
        figures.Axis("preallocation", ticks=sizes),
        y,
        joined=False,
        levels=[figures.Level(100.0)],
    )
    return Answer(said, figure, data.cards, CODES)


def rates(data: Data) -> Section | None:
    """Write and read rates as files are deleted, a figure a size; beside each line the level of the clean section."""
    rows = rows_of(data)
    if aged(rows)["x"].nunique() < 2:
        return None
    y = figures.Axis.around("bandwidth, MiB/s", rows)
    plots = []
    for size, part in rows.groupby("size", sort=False):
        clean = part[part["deleted"] == 0]
        levels = [figures.Level(row.median, f"{row.rate}, clean", of=row.rate) for row in clean.itertuples()]
        title = f"Rates over fullness, preallocation of {size}"
        plots.append(figures.lines(title, aged(part), "rate", FULLNESS, y, levels=levels))
    text = (
        "Files were written together, their pieces in turns, until the target was full. Then one file after another "
        "was deleted in a random order. After each, the same amount was written into the free space and read. Right "
        f"is full. n = {groups.counts(aged(rows))} a point."
    )
    return Section("Rates as the file system empties", text, plots)


def share_of_clean(data: Data) -> Section | None:
    """Each size's rate over its clean one, with the published bounds."""
    rows = kept(aged(rows_of(data)))
    if rows["x"].nunique() < 2:
        return None
    y = figures.Axis.from_zero("share of the clean rate, %", rows, least=LEAST_POINTS)
    plots = []
    for rate, part in rows.groupby("rate", sort=False):
        if rate in PUBLISHED_PERCENT:
            published = [figures.Level(PUBLISHED_PERCENT[rate])]
        else:
            published = []
        title = f"{rate.capitalize()}, share of the clean rate"
        plots.append(figures.lines(title, part, "size", FULLNESS, y, levels=published))
    bounds = " and ".join(f"{rate} ≥ {bound:g}%" for rate, bound in PUBLISHED_PERCENT.items())
    text = (
        "The median of all pairwise ratios to the same size's clean section, with the interval that inverts the exact "
        "rank-sum test. The grey line is the result of Swan and Petesch (Cray, CUG 2015) for 8 MiB: "
        f"{bounds} of a clean file system. " + _least(rows)
    )
    return Section("What share of the clean rate is left", text, plots)


def _least(rows: pd.DataFrame) -> str:
    """The worst share at each size, in words."""
    texts = []
    for size, part in rows.groupby("size", sort=False):
        worst = part.loc[part.groupby("rate", sort=False)["median"].idxmin()]
        texts.append(
            f"{size} has "
            + words.joined([f"{row.rate} {row.median:.0f}% (at {row.state})" for row in worst.itertuples()])
        )
    return f"The least of each preallocation follows. {'. '.join(texts)}."


def contiguity(data: Data) -> Section | None:
    """Mean extent of the measured files over fullness, a line a preallocation size."""
    rows = aged(rows_of(data)).drop_duplicates("state")
    points = rows[["state", "size", "x"]].assign(median=rows["state"].map(mean_extents_mib(data))).dropna()
    if points["x"].nunique() < 2:
        return None
    y = figures.Axis.powers("mean extent, MiB", points)
    figure = figures.lines("Mean extent of the measured files", points, "size", FULLNESS, y)
    text = "Medians over the iterations. A file that is written into what one deleted file left takes its pieces."
    return Section("Contiguity of what was measured", text, [figure])


def extent_sizes(data: Data) -> Section | None:
    """Histogram of the extents of the measured files: each size clean, fullest and emptiest."""
    measured_rows = data.usual
    plots = []
    for size, part in rows_of(data).groupby("size", sort=False):
        filled = aged(part).sort_values("x", kind="stable", ascending=False)["state"].unique()
        states = [*part.loc[part["deleted"] == 0, "state"].unique(), *dict.fromkeys([*filled[:1], *filled[-1:]])]
        by_state = {state: _classes(measured_rows[measured_rows["state"] == state]) for state in states}
        by_state = {state: classes for state, classes in by_state.items() if classes}
        if by_state:
            # The middle of a class is about 1.5 times its lower end in all: that does not change a share.
            weights = {
                state: {extent_size: extent_size * number for extent_size, number in classes.items()}
                for state, classes in by_state.items()
            }
            title = f"Extents of the measured files, preallocation of {size}"
            x = figures.Axis("size of an extent, from (each class up to twice that)")
            y = figures.Axis("share of the measured bytes, %")
            plots.append(figures.shares(title, weights, x, y))
    text = "The share of the measured files' bytes, about, by the size of the extent that they lay in; all iterations."
    if plots:
        return Section("Sizes of the measured extents", text, plots)
    return None


def mean_extents_mib(data: Data) -> pd.Series:
    """State -> the mean extent of its measured files, the median over the iterations; without what is not known."""
    return (data.usual.groupby("state")["measured_mean_extent_bytes"].median() / (1 << 20)).dropna()


def _classes(rows: pd.DataFrame) -> Counter[int]:
    """Size class in bytes -> extents, over all iterations."""
    classes: Counter[int] = Counter()
    for row in dataset.values_of(rows, "measured_extents_of"):
        classes.update({int(size): number for size, number in row.items()})
    return classes


VIEW = View(
    (rates, share_of_clean, contiguity, extent_sizes),
    reference="the same size of preallocation in a clean section",
    answer=answer,
)
