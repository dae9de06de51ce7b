"""The figures of populate-and-fragment studies (studies.md, section 1)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from fsage.figures import Line, limits, line_panel, plane_panel
from fsage.report.groups import measure_label, params_labels, size_label
from fsage.report.section import Data, Section
from fsage.statistics import ratio

CAPACITY = "capacity AA, % of the empty target (nominal)"
FRAGMENTATION = "fragmentation BB, % of files deleted (nominal)"
FULLNESS = "real fullness, % of capacity in use"
EQUAL_WITHIN_POINTS = 3.0
"""An unfragmented state counts as equally full when its real fullness differs by less than this."""
PUBLISHED_COV_PERCENT = (0.0, 3.5)


def sections(data: Data) -> list[Section]:
    """Every figure that the data can fill, in the order of the source."""
    drawn = (over_capacity, variation, plane, over_fragmentation, at_equal_fullness, file_sizes)
    return [section for draw in drawn if (section := draw(data)) is not None]


def over_capacity(data: Data) -> Section | None:
    """Bandwidth against nominal capacity, unfragmented states only."""
    rows = _main(data)
    rows = _choose(rows[rows["fragmentation_percent"] == 0], (8, 64))
    if rows["capacity_percent"].nunique() < 2:
        return None
    panels = [
        line_panel(
            f"{name.capitalize()} bandwidth over capacity",
            _lines(part, "capacity_percent", params_labels(part["params"]), "params"),
            CAPACITY,
            f"{name} bandwidth, {unit}",
            data.stamp,
            y_limits=limits(rows),
            ticks=sorted(part["capacity_percent"].unique()),
        )
        for name, unit, part in _measures(rows)
    ]
    return Section("Bandwidth as the file system fills", f"Unfragmented states (BB = 0). {_note(rows)}", panels)


def variation(data: Data) -> Section | None:
    """Coefficient of variation at the largest transfer against capacity, unfragmented states."""
    rows = _largest(_main(data))
    rows = rows[(rows["fragmentation_percent"] == 0) & rows["cov"].notna()]
    if rows.empty:
        return None
    percent = rows.assign(median=rows["cov"] * 100, low=float("nan"), high=float("nan"))
    percent["samples"] = [[] for _ in range(len(percent))]
    labels = {m: f"{measure_label(m)[0]}s" for m in percent["measure"].unique()}
    panel = line_panel(
        "Coefficient of variation over capacity",
        _lines(percent, "capacity_percent", labels, "measure"),
        CAPACITY,
        "coefficient of variation, %",
        data.stamp,
        y_limits=(0, max(1.1 * percent["median"].max(), 1.2 * PUBLISHED_COV_PERCENT[1])),
        band=(*PUBLISHED_COV_PERCENT, "published: 0-3.5%, writes"),
        ticks=sorted(percent["capacity_percent"].unique()),
    )
    text = f"Sample standard deviation over mean, {_transfers(rows)} transfers, {_counts(rows)} samples a point."
    return Section("How much iterations scatter", text, [panel])


def plane(data: Data) -> Section | None:
    """The AA x BB plane at the largest transfer, one panel a measure."""
    rows = _largest(_main(data)).rename(columns={"capacity_percent": "x", "fragmentation_percent": "y"})
    if rows["x"].nunique() < 2 or rows["y"].nunique() < 2:
        return None
    planned = pd.DataFrame([axes for name in data.planned if (axes := _axes(name))], columns=["x", "y"])
    panels = []
    for name, unit, part in _measures(rows):
        there = set(zip(part["x"], part["y"], strict=True))
        gaps = [pair for pair in planned.drop_duplicates().itertuples(index=False) if tuple(pair) not in there]
        missing = pd.DataFrame(gaps, columns=["x", "y"])
        panels.append(
            plane_panel(
                f"{name.capitalize()} bandwidth in {unit}, {_transfers(rows)} transfers",
                part,
                missing,
                CAPACITY,
                FRAGMENTATION,
                data.stamp,
            )
        )
    text = (
        f"Median and, below it, the coefficient of variation; n = {_counts(rows)}. Dark is slow; hatched was "
        "planned and has no valid sample. Up a column capacity stays and real fullness falls."
    )
    return Section("The whole plane", text, panels, wide=True)


def over_fragmentation(data: Data) -> Section | None:
    """Bandwidth against BB at the highest capacity that has several, by transfer size."""
    rows = _main(data)
    levels = rows.groupby("capacity_percent")["fragmentation_percent"].nunique()
    levels = levels[levels > 1]
    if levels.empty:
        return None
    capacity = levels.index.max()
    rows = _choose(rows[rows["capacity_percent"] == capacity], (4, 8, 64))
    panels = [
        line_panel(
            f"{name.capitalize()} bandwidth over fragmentation at AA = {capacity:g}",
            _lines(part, "fragmentation_percent", params_labels(part["params"]), "params"),
            FRAGMENTATION,
            f"{name} bandwidth, {unit}",
            data.stamp,
            y_limits=limits(rows),
            ticks=sorted(part["fragmentation_percent"].unique()),
        )
        for name, unit, part in _measures(rows)
    ]
    text = (
        f"What deleting does at a nominal capacity of {capacity:g}%: two things at once, for free space is "
        f"broken up and real fullness falls. {_note(rows)}"
    )
    return Section("Bandwidth as files are deleted", text, panels)


def at_equal_fullness(data: Data) -> Section | None:
    """Fragmented states beside the unfragmented ones: bandwidth over real fullness, and the ratio over BB."""
    rows = _largest(_main(data))
    if not (rows["fragmentation_percent"] > 0).any() or not (rows["fragmentation_percent"] == 0).any():
        return None
    panels = []
    for name, unit, part in _measures(rows):
        whole = part[part["fragmentation_percent"] == 0]
        broken = part[part["fragmentation_percent"] > 0]
        chosen = _spread(broken["capacity_percent"], 4)[-3:]  # the emptiest lie all in one corner
        panels.append(
            line_panel(
                f"{name.capitalize()} bandwidth over real fullness",
                [
                    Line("unfragmented", whole.assign(x=whole["real_fullness_percent"])),
                    *_lines(
                        broken[broken["capacity_percent"].isin(chosen)],
                        "real_fullness_percent",
                        {level: f"AA = {level:g}" for level in chosen},
                        "capacity_percent",
                    ),
                ],
                FULLNESS,
                f"{name} bandwidth, {unit}",
                data.stamp,
                y_limits=limits(rows),
            )
        )
        equal = _against_equally_full(broken, whole)
        if not equal.empty:
            levels = {level: f"AA = {level:g}" for level in _spread(equal["capacity_percent"], 4)[-3:]}
            panels.append(
                line_panel(
                    f"{name.capitalize()}s, fragmented over equally full",
                    _lines(
                        equal[equal["capacity_percent"].isin(levels)],
                        "fragmentation_percent",
                        levels,
                        "capacity_percent",
                    ),
                    FRAGMENTATION,
                    "factor (1 = as unfragmented)",
                    data.stamp,
                    y_limits=limits(pd.concat([equal, equal.assign(median=1.0)])),
                    reference=1.0,
                    ticks=sorted(equal["fragmentation_percent"].unique()),
                )
            )
    text = (
        f"{_transfers(rows)} transfers. First: the distance below the unfragmented line is what "
        "fragmentation costs apart from fullness. Then: each fragmented state divided by the unfragmented "
        f"one of equal real fullness (within {EQUAL_WITHIN_POINTS:g} points), with the interval of the exact "
        "rank test. "
    )
    return Section("Fragmentation apart from fullness", text + _note(rows), panels)


def file_sizes(data: Data) -> Section | None:
    """Bandwidth over BB for files, and so fragments, of different size (Series 2)."""
    here = data.table
    axes = [axes for name in data.planned if (axes := _axes(name)) and axes[1] > 0]
    both = pd.concat([data.table, data.comparison]) if len(data.comparison) else data.table
    pairs = pd.Series(zip(both["capacity_percent"], both["fragmentation_percent"], strict=True), index=both.index)
    both = both[pairs.isin(axes) & both["measure"].isin(here["measure"])]
    # Whether a cell goes on to read does not change how it writes.
    same = both["params"].map(_without_phases).isin(set(here["params"].map(_without_phases)))
    both = both[same & both["transfer_size_bytes"].isin(here["transfer_size_bytes"])]
    sizes = sorted({*both["file_size_bytes"].dropna(), *data.compared_sizes}, reverse=True)
    if len(sizes) < 2 or both.empty:
        return None
    labels = {size: f"{size_label(size)} files" for size in sizes}
    panels = [
        line_panel(
            f"{name.capitalize()} bandwidth by file size, {size_label(transfer)} transfers, AA = {level:g}",
            _lines(at, "fragmentation_percent", labels, "file_size_bytes"),
            FRAGMENTATION,
            f"{name} bandwidth, {unit}",
            data.stamp,
            y_limits=limits(both),
            ticks=sorted(at["fragmentation_percent"].unique()),
        )
        for name, unit, part in _measures(both)
        for (transfer, level), at in part.groupby(["transfer_size_bytes", "capacity_percent"])
    ]
    text = f"Nominal file sizes. {_note(both)}"
    if gaps := _gaps(both, axes, sizes):
        text += f" Not measured: {'; '.join(gaps)}."
    return Section("Small fragments against large ones", text, panels)


def _main(data: Data) -> pd.DataFrame:
    """The rows of the study's largest file size; others are compared in a figure of their own."""
    sizes = data.table["file_size_bytes"]
    return data.table[sizes == sizes.max()] if sizes.notna().any() else data.table


def _largest(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["transfer_size_bytes"] == rows["transfer_size_bytes"].max()]


def _choose(rows: pd.DataFrame, mib: tuple[int, ...]) -> pd.DataFrame:
    """The published transfer sizes where at least two are there, else a few that span what is."""
    present = sorted(rows["transfer_size_bytes"].dropna().unique())
    chosen = [size for size in present if size in {one << 20 for one in mib}]
    return rows[rows["transfer_size_bytes"].isin(chosen if len(chosen) > 1 else _spread(pd.Series(present), 3))]


def _spread(values: pd.Series, count: int) -> list[Any]:
    """At most `count` of the distinct values, the ends among them."""
    distinct = sorted(values.dropna().unique())
    if len(distinct) <= count:
        return distinct
    return [distinct[round(i * (len(distinct) - 1) / (count - 1))] for i in range(count)]


def _measures(rows: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    return [(*measure_label(m), rows[rows["measure"] == m]) for m in rows["measure"].unique()]


def _lines(rows: pd.DataFrame, x: str, labels: Mapping[Any, str], by: str) -> list[Line]:
    """A line for each of `labels`, whose keys are values of the column `by`."""
    found = [(label, rows[rows[by] == key]) for key, label in labels.items()]
    return [Line(label, part.assign(x=part[x])) for label, part in found if len(part)]


def _against_equally_full(broken: pd.DataFrame, whole: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for row in broken.to_dict("records"):
        peers = whole[whole["params"] == row["params"]]
        distance = (peers["real_fullness_percent"] - row["real_fullness_percent"]).abs()
        if distance.empty or distance.min() >= EQUAL_WITHIN_POINTS:
            continue
        peer = peers.loc[distance.idxmin()]
        result = ratio(row["samples"], peer["samples"])
        held = result.interval
        ends = {"low": held.low if held else None, "high": held.high if held else None}
        rows.append({**row, "median": result.value, **ends, "n": min(result.n, result.n_reference), "samples": []})
    return pd.DataFrame(rows, columns=broken.columns).astype({"low": "float64", "high": "float64"})


def _gaps(rows: pd.DataFrame, axes: list[tuple[float, float]], sizes: list[int]) -> list[str]:
    """States and transfers that some file size lacks, a phrase for each size and transfer."""
    columns = ["file_size_bytes", "transfer_size_bytes", "capacity_percent", "fragmentation_percent"]
    have = set(rows[columns].astype("float64").itertuples(index=False, name=None))
    gaps = []
    for size in sizes:
        for transfer in sorted(rows["transfer_size_bytes"].dropna().unique()):
            lacking = [f"{aa:02.0f}.{bb:02.0f}" for aa, bb in axes if (size, transfer, aa, bb) not in have]
            if lacking:
                gaps.append(f"{size_label(size)} files with {size_label(transfer)} transfers at {', '.join(lacking)}")
    return gaps


def _without_phases(params: str) -> str:
    return json.dumps({key: value for key, value in json.loads(params).items() if key != "phases"}, sort_keys=True)


def _axes(state: str) -> tuple[float, float] | None:
    """AA and BB of a state with one generation: '80.50@264M' -> (80, 50)."""
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\+\d+)?(?:@.*)?", state)
    return (float(match[1]), float(match[2])) if match else None


def _transfers(rows: pd.DataFrame) -> str:
    return " and ".join(size_label(size) for size in sorted(rows["transfer_size_bytes"].dropna().unique()))


def _counts(rows: pd.DataFrame) -> str:
    low, high = rows["n"].min(), rows["n"].max()
    return f"{low}" if low == high else f"{low} to {high}"


def _note(rows: pd.DataFrame) -> str:
    """How many samples a point has, what its bar holds, and whether the axis is cut."""
    levels = ", ".join(f"{level:.2%}" for level in sorted(rows["level"].dropna().unique()))
    bars = f"bars hold the median at {levels}" if levels else "too few samples for an interval"
    cut = " The bandwidth axes do not begin at zero." if limits(rows)[0] else ""
    return f"n = {_counts(rows)} a point; short strokes are samples; {bars}.{cut}"
