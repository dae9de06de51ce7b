"""What fullness costs and, apart from it, fragmentation; or what the size of fragments does, or of what is measured.

Rates, losses and scatter over capacity, over fragmentation and over the transfer size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pandas as pd

from fsage.api.report import (
    Answer,
    Data,
    Named,
    Section,
    View,
    by_comparisons,
    counted,
    figures,
    groups,
    planted,
    words,
)

from .fragments import file_sizes, filler, largest, several_fillers, sizes_told
from .fullness import (
    EQUAL_WITHIN_POINTS,
    against_equally_full,
    amount,
    at_equal_fullness,
    details,
    factor_lines,
    position,
    several_amounts,
)
from .rows import (
    CAPACITY,
    FRAGMENTATION,
    RELATIVE,
    axes_of,
    by_measure,
    choose_transfers,
    largest_transfer,
    levels_axis,
    main_rows,
    note,
    plane,
    spread,
)

LEAST_POINTS = 10.0
"""The loss axis spans at least this many percentage points."""


def over_capacity(data: Data) -> Section | None:
    """Bandwidth against nominal capacity, unfragmented states only."""
    rows = main_rows(data)
    rows = choose_transfers(rows[rows["fragmentation_percent"] == 0], (8, 64))
    if rows["capacity_percent"].nunique() < 2:
        return None
    plots = [
        bandwidth(rows, part, f"{name.capitalize()} bandwidth over capacity", "capacity_percent", CAPACITY)
        for name, _, part in by_measure(rows)
    ]
    return Section("Bandwidth as the file system fills", f"Unfragmented states (BB = 0). {note(rows)}", plots)


def over_fragmentation(data: Data) -> Section | None:
    """Bandwidth against BB at the highest capacity that has several; beside it, against the equally full states."""
    every = main_rows(data)
    several = every.groupby("capacity_percent")["fragmentation_percent"].nunique()
    several = several[several > 1]
    if several.empty:
        return None
    capacity = several.index.max()
    rows = choose_transfers(every[every["capacity_percent"] == capacity], (4, 8, 64))
    plots = []
    for name, _, part in by_measure(rows):
        title = f"{name.capitalize()} bandwidth over fragmentation at AA = {capacity:g}"
        plots.append(bandwidth(rows, part, title, "fragmentation_percent", FRAGMENTATION))
        whole = every[(every["fragmentation_percent"] == 0) & (every["measure"] == part["measure"].iloc[0])]
        equal = against_equally_full(part[part["fragmentation_percent"] > 0], whole)
        if len(equal):
            title = f"{RELATIVE.format(name.capitalize())} (AA = {capacity:g})"
            plots.append(factor_lines(title, equal))
    text = (
        f"What deleting does at a nominal capacity of {capacity:g}%: two things at once, for free space is "
        "broken up and real fullness falls. Beside it the same states divided by the unfragmented one of equal real "
        f"fullness (within {EQUAL_WITHIN_POINTS:g} points), where there is one: what is left is fragmentation. "
        + note(rows)
    )
    return Section("Bandwidth as files are deleted", text, plots)


def bandwidth(rows: pd.DataFrame, part: pd.DataFrame, title: str, x: str, x_label: str) -> figures.Figure:
    """One measure's bandwidth over the levels of the column `x`, a line a transfer size; `rows` share the y axis."""
    (name, unit, _) = by_measure(part)[0]
    y = figures.Axis.around(f"{name} bandwidth, {unit}", rows)
    return over(title, part, x, x_label, y)


def over(title: str, part: pd.DataFrame, x: str, x_label: str, y: figures.Axis) -> figures.Figure:
    """The rows over the levels of the column `x`, a line a set of parameters."""
    labels = groups.params_labels(part)
    return figures.lines(title, part, "params", levels_axis(part, x, x_label), y, at=x, labels=labels)


def metadata(data: Data) -> Section | None:
    """Each operation's rate against AA, unfragmented, and against BB at the highest capacity that has several."""
    rows = main_rows(data)
    rows = rows[rows["measure"].str.endswith("_per_s")]
    if rows.empty:
        return None
    several = rows.groupby("capacity_percent")["fragmentation_percent"].nunique()
    highest = several[several > 1].index.max()
    axes = (
        ("capacity", rows[rows["fragmentation_percent"] == 0], "capacity_percent", CAPACITY),
        ("fragmentation", rows[rows["capacity_percent"] == highest], "fragmentation_percent", FRAGMENTATION),
    )
    plots = [
        over(
            f"{groups.Measure.of(measure).name.capitalize()} rate over {axis}",
            part,
            column,
            label,
            figures.Axis.around("operations a second", part),
        )
        for axis, some, column, label in axes
        for measure, part in some.groupby("measure", sort=False)
        if part[column].nunique() > 1
    ]
    text = f"Empty files, each task in a directory of its own; n = {groups.counts(rows)} a point."
    if pd.notna(highest):
        text += f" Over fragmentation: at AA = {highest:g}, where real fullness falls as BB rises."
    if plots:
        return Section("Metadata rates", text, plots)
    return None


def loss(data: Data) -> Section | None:
    """Loss in percent with its interval, at a few states over the transfer size."""
    rows = _losses(main_rows(data))
    if rows.empty:
        return None
    aged = _aged(rows)
    plots = []
    for name, _, part in by_measure(rows):
        of_measure = aged[aged["measure"].isin(part["measure"])].dropna(subset="transfer_size_bytes")
        of_aged, ticks = figures.doubling(of_measure, "transfer_size_bytes")
        if len(ticks) > 1:
            x = figures.Axis("transfer size", ticks=ticks)
            y = figures.Axis.from_zero("loss against clean, %", aged, least=LEAST_POINTS)
            title = f"Loss of {name}s over transfer size"
            labels = words.short_names(of_aged["state"])
            plots.append(figures.lines(title, of_aged, "state", x, y, labels=labels, levels=[figures.Level(0.0)]))
    if not plots:
        return None
    clean = ", ".join(sorted(rows["clean"].unique()))
    text = (
        f"Against the clean state ({clean}: unfragmented, the lowest capacity) with the same parameters: the median "
        "of all pairwise ratios, with its interval. Above zero is a loss; "
        "the PaF slides show 2-35%, growing with the transfer size."
    )
    return Section("What is lost against a clean file system", text, plots)


def _losses(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that have a ratio to the clean state; median, low and high are the loss in percent."""
    rows = groups.factors(rows)
    return rows.assign(
        median=100 * (1 - rows["median"]),
        low=100 * (1 - rows["high"]),
        high=100 * (1 - rows["low"]),
    )


def _aged(rows: pd.DataFrame) -> pd.DataFrame:
    """The fullest states: unfragmented, and fragmented half way and to the end."""
    fullest = rows[rows["capacity_percent"] == rows["capacity_percent"].max()]
    return fullest[fullest["fragmentation_percent"].isin(spread(fullest["fragmentation_percent"], 3))]


def truth(data: Data) -> Section | None:
    """Planted values beside recovered ones."""
    found = planted(data)
    if found:
        return found.section
    return None


Draw = Callable[[Data], Section | None]
CODES = (
    "State names are AA.BB. Files worth AA% of the empty file system were added, then BB% of them were deleted. "
    "Real fullness is what is left in use: 80.50 is about 40% full."
)
HALF = 50


def answer(data: Data) -> Answer:
    """A sentence for each pair of states that the study compares.

    Before them, or in their place: what was recovered of planted values, what another size of files does, or what
    measuring other shares of the target shows.
    """
    named = partial(decoded, data, _equally_full(data))
    by_state = by_comparisons(data, named, CODES)
    found = planted(data)
    if found and found.sentences:
        return replace(by_state, sentences=found.sentences, figure=found.figure)
    sizes = sizes_told(data)
    if sizes is not None:
        return replace(by_state, sentences=[sizes, *by_state.sentences][:2], figure=largest(data))
    if data.table.empty:
        return counted.answer(counted.metadata(data)) or by_state
    if several_amounts(data.table):
        return replace(by_state, **details(data, named))
    return by_state


def decoded(data: Data, equally_full: frozenset[str], state: str) -> Named:
    """'80.00' -> 'at 80% full'; '80.50' -> 'after filling to 80% and deleting half of the files (40% full)'.

    An unfragmented state that a fragmented one is compared with is named by that, where both are equally full.
    """
    axes = axes_of(data, state)
    if axes is None:
        return Named(f"at {state}", state)
    capacity, deleted = axes
    if state in equally_full:
        return Named("on an equally full file system without holes", f"{capacity:g}% full, no holes")
    if not deleted:
        return Named(f"at {capacity:g}% full", f"{capacity:g}% full")
    share = "half" if deleted == HALF else f"{deleted:g}%"
    in_use = data.of_state(data.frame, state)["real_fullness_percent"].median()
    now = "" if pd.isna(in_use) else f" ({in_use:.0f}% full)"
    return Named(
        f"after filling to {capacity:g}% and deleting {share} of the files{now}",
        f"filled to {capacity:g}%, {share} deleted",
    )


def _equally_full(data: Data) -> frozenset[str]:
    """Unfragmented states that a fragmented one of (about) the same real fullness is compared with."""
    rows = data.at_largest_transfer
    pairs = set()
    for pair in data.headline:
        axes = axes_of(data, pair.state), axes_of(data, pair.against)
        full = [data.of_state(rows, name)["real_fullness_percent"].median() for name in (pair.state, pair.against)]
        if axes[0] and axes[1] and axes[0][1] and not axes[1][1] and abs(full[0] - full[1]) < EQUAL_WITHIN_POINTS:
            pairs.add(pair.against)
    return frozenset(pairs)


def _of_one_filler(draw: Draw) -> Draw:
    """What has a point a structure, where a structure is laid in one way."""
    return lambda data: None if several_fillers(data) else draw(data)


PUBLISHED_SHARE = 11
"""Percent of the targets that the source measured: 10 GiB for each of 256 tasks, of 22.6 TiB."""


def published(data: Data) -> list[str]:
    """The loss of fullness and fragmentation together, which is what was published, and what is not alike."""
    pairs = []
    for state in dict.fromkeys(pair.state for pair in data.comparisons):
        axes = axes_of(data, state)
        if axes and axes[1]:
            pairs += _together(data, state)
    if not pairs:
        return []
    taken = data.frame[data.frame["status"] == "valid"]
    shares = (100 * taken["measured_bytes"] / taken["capacity_bytes"]).dropna()
    return words.sentences(
        "paf/published",
        pairs=pairs,
        on_iocost=taken["device_model"].str.contains("IOCost").any(),
        measured=dict.fromkeys(f"{end:.2g}" for end in shares.agg(["min", "max"]).dropna()),
        published_share=PUBLISHED_SHARE,
    )


def _together(data: Data, state: str) -> list[tuple[str, str, list[tuple[str, words.Finding]]]]:
    """The state, the clean one, and of each kind of rate the finding; nothing where there is none."""
    findings = []
    against = ""
    for row in data.of_state(largest_transfer(data.table), state).itertuples():
        if row.to_clean is not None and row.to_clean.interval:
            findings.append((groups.Measure.of(row.measure).plural, words.Finding(row.to_clean, tested=False)))
            against = against or row.clean
    if not findings:
        return []
    if "@" not in state:
        against = against.partition("@")[0]
    return [(state, against, findings)]


VIEW = View(
    (
        truth,
        filler,
        amount,
        *map(
            _of_one_filler,
            (plane, over_capacity, over_fragmentation, loss, at_equal_fullness, file_sizes, position),
        ),
        metadata,
        counted.metadata,
    ),
    reference="the unfragmented state of lowest capacity with the same parameters",
    answer=answer,
    published=published,
    headings={"fullness, %": "AA, %", "deleted, %": "BB, %"},
)
