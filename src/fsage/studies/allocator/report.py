"""The report of allocator studies: how long one call takes, cold and warm, over fullness, and what is looked at for it.

Rows are groups of cells with the parameters of their call: `request_size` or `extents`, `cache`, `mb_optimize_scan`,
`measure` (a column in ms, or a count), and of their state `fullness_percent` (`x`), `hole_bytes` and `run_percent`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from fsage.api.model import round_size
from fsage.api.report import Answer, Data, Section, View, counted, dataset, figures, groups, statistics, words
from fsage.studies.limits import report as limits

from .model import PlantFreeSpace, considered

CALL_MS = "fallocate_ms"
UNLINK_MS = "unlink_ms"
COUNTS = ("device_reads", "groups_considered", "groups_scanned", "buddies_made", "tree_lookups", "tree_compares")
MOUNTS = ("mount_ms", "mount_cpu_ms", "umount_ms", "umount_cpu_ms")
SHOWN_BYTES = 32 << 20
"""The call of the answer, where it was measured."""
FULLNESS = figures.Axis("fullness, %")
CODES = "A state such as 80.64K is a target that is 80% full, its free space in holes of 64 KiB at equal distances."
OPTION = "mb_optimize_scan"
Row = dict[str, Any]
ORDER = ["x", "hole_bytes", "run_percent", "request_size", "extents", "cache", OPTION]


def rows_of(data: Data, *measures: str) -> pd.DataFrame:
    """The groups that have any of these measures, by fullness."""
    names = [name for name in measures if name in data.samples.dropna(axis=1, how="all")]
    table = data.medians(names)
    rows = table.join(dataset.unpacked(table, "param", "request_size", "extents", "cache", OPTION))
    rows = rows.join(dataset.unpacked(table, "axis", "fullness_percent", "hole_bytes", "run_percent"))
    return rows[rows["main"]].assign(x=rows["fullness_percent"]).sort_values(ORDER, kind="stable")


def answer(data: Data) -> Answer | None:
    """The call of 32 MiB, or the largest, in the fullest state; what was read for it; against a smaller call."""
    rows = rows_of(data, CALL_MS, *COUNTS, "fallocate_unended", "fallocate_cpu_ms")
    calls = rows[rows["measure"] == CALL_MS]
    if calls.empty:
        return limits.answer(data) or counted.answer(counted_calls(data))
    sizes = sorted(calls["request_size"].unique())
    size = SHOWN_BYTES if SHOWN_BYTES in sizes else sizes[-1]
    of_size = calls[calls["request_size"] == size]
    state = of_size["state"].iloc[-1]
    in_state = of_size[of_size["state"] == state]
    parts = [f"{_said(row, rows)} {_call(row)}" for row in in_state.to_dict("records")]
    unended = any("more than" in part for part in parts)
    noted = data.notes.get(state, {}).get(PlantFreeSpace.kind, {})
    said = words.sentences(
        "allocator/answer",
        fullness=f"{data.axes_of(state)['fullness_percent']:g}",
        free_extents=noted.get("found", {}).get("free_extents"),
        call=round_size(size),
        parts=parts,
        groups=noted.get("groups"),
        option=OPTION,
        **_read(rows, state, size),
        **_beside(rows, calls[calls["state"] == state], size, unended),
    )
    by_groups = planted(data)
    figure = by_groups.figures[0] if by_groups else _over_fullness(of_size) or _over_sizes(calls)
    return Answer(said[:2], figure, data.cards, CODES)


def _said(row: Row, rows: pd.DataFrame) -> str:
    """'14 ms (13 to 15)', or that the calls did not end."""
    same = _same(rows, row)
    unended = same.get("fallocate_unended")
    if unended and unended["median"] > 0:
        cpu_ms = same["fallocate_cpu_ms"]["median"]
        return f"more than {row['median'] / 1e3:.0f} s ({cpu_ms / row['median']:.0%} of a processor)"
    return _shown(row, " ms")


def _number(value: float) -> str:
    """Three digits, or all of a whole number that has more: '0.315', '1,340'."""
    if value < 999.5:
        return f"{value:.3g}"
    return f"{value:,.0f}"


def _shown(row: Row | None, unit: str = "") -> str:
    """A median with its interval, '14 (13 to 15)', where there is one; a dash for a measure that is not there."""
    if row is None:
        return Section.NONE
    if pd.isna(row["low"]):
        interval = ""
    else:
        interval = f" ({_number(row['low'])} to {_number(row['high'])})"
    return f"{_number(row['median'])}{unit}{interval}"


def _same(rows: pd.DataFrame, row: Row) -> dict[str, Row]:
    """All measures of the same cells, by their names."""
    keys = ["state", "request_size", "extents", "cache", OPTION]
    wanted = pd.Series({key: str(row[key]) for key in keys})  # as texts, what is missing is alike too
    same = rows[(rows[keys].map(str) == wanted).all(axis=1)]
    return {other["measure"]: other for other in same.to_dict("records")}


def _call(row: Row) -> str:
    """'cold', 'cold with mb_optimize_scan=0'."""
    return row["cache"] + ("" if pd.isna(row[OPTION]) else f" with {OPTION}={row[OPTION]:g}")


def _read(rows: pd.DataFrame, state: str, size: float) -> Row:
    """What was read for a cold call: medians by measure, and the option with which."""
    of_call = rows[(rows["state"] == state) & (rows["request_size"] == size) & (rows["cache"] == "cold")]
    of_call = of_call.sort_values(OPTION, ascending=False, na_position="first", kind="stable")
    read = dict(zip(of_call["measure"][::-1], of_call["median"][::-1], strict=True))  # the kernel's own choice wins
    option = None
    if len(of_call) and pd.notna(of_call[OPTION].iloc[0]):
        option = of_call[OPTION].iloc[0]
    return {"read": read, "read_option": option}


def _beside(rows: pd.DataFrame, in_state: pd.DataFrame, size: float, unended: bool) -> Row:
    """What the option does in the fullest state; or how much longer it takes than the next smaller call.

    Where calls did not end: what the next smaller call takes.
    """
    smaller = in_state[in_state["request_size"] < size]
    smaller = smaller[smaller["request_size"] == smaller["request_size"].max()]
    same = in_state[in_state["request_size"] == size]
    beside: Row = {"smaller": "", "shorter": [], "by_option": {}, "against": []}
    if len(smaller):
        beside["smaller"] = round_size(smaller["request_size"].iloc[0])
    if unended:
        beside["shorter"] = [f"{_said(row, rows)} {_call(row)}" for row in smaller.to_dict("records")]
        return beside
    for row, other in _by_option(same):
        beside["by_option"][row["cache"]] = words.times(statistics.ratio(row["samples"], other["samples"]))
    if not beside["by_option"]:
        both = smaller.merge(same, on=["cache", OPTION], suffixes=("_smaller", ""))
        for row in both.to_dict("records"):
            times = words.times(statistics.ratio(row["samples"], row["samples_smaller"]))
            beside["against"].append(f"{times} as long {_call(row)}")
    return beside


def _by_option(calls: pd.DataFrame) -> Iterator[tuple[Row, Row]]:
    """The rows of each call with OPTION 0 and with 1, where both were measured."""
    for _, part in calls.groupby(["state", "request_size", "cache"], sort=False):
        by_option = {row[OPTION]: row for row in part.to_dict("records")}
        if {0, 1} <= by_option.keys():
            yield by_option[0], by_option[1]


def _over_fullness(of_size: pd.DataFrame) -> figures.Figure | None:
    """Latency of one size over fullness, a line for each way and size of holes."""
    if of_size["x"].nunique() < 2:
        return None
    several = of_size["hole_bytes"].nunique() > 1
    names = [
        _call(row) + (f", holes of {round_size(row['hole_bytes'])}" if several else "")
        for row in of_size.to_dict("records")
    ]
    size = round_size(of_size["request_size"].iloc[0])
    return figures.lines(
        f"One fallocate of {size}", of_size.assign(name=names), "name", FULLNESS, _logarithmic(of_size)
    )


def _over_sizes(calls: pd.DataFrame) -> figures.Figure | None:
    """Latency over the size of the call, where there is one fullness."""
    rows, places = figures.placed(calls, "request_size", sorted(calls["request_size"].unique()))
    if len(places) < 2:
        return None
    x = figures.Axis("one call", ticks={place: round_size(float(size)) for place, size in places.items()})
    names = [f"{row['state']}, {_call(row)}" for row in rows.to_dict("records")]
    return figures.lines("One fallocate", rows.assign(name=names), "name", x, _logarithmic(rows))


def _logarithmic(rows: pd.DataFrame) -> figures.Axis:
    """An axis whose ticks are powers of two, few enough to be read."""
    return figures.Axis.powers("one call, ms", rows, written=_number)


def calls(data: Data) -> Section | None:
    """Every call: how long it takes and what it looks at; figures over fullness, a size each."""
    rows = rows_of(data, CALL_MS, "fallocate_cpu_ms", "fallocate_unended", "kernel_threads_ms", *COUNTS)
    of_calls = rows[rows["measure"] == CALL_MS]
    if of_calls.empty:
        return None
    present = [name for name in COUNTS if (rows["measure"] == name).any()]
    heads = ["state", "call", "", "ms", "of it CPU, ms", "kernel threads, ms"]
    table = [heads + [name.replace("_", " ") for name in present]]
    for row in of_calls.to_dict("records"):
        same = {name: other["median"] for name, other in _same(rows, row).items()}
        shown = [
            _number(same[name]) if name in same else Section.NONE for name in ("fallocate_cpu_ms", "kernel_threads_ms")
        ]
        seen = [f"{same[name]:,.0f}" if name in same else Section.NONE for name in present]
        table.append([row["state"], round_size(row["request_size"]), _call(row), _said(row, rows), *shown, *seen])
    plots = []
    for _, part in of_calls.groupby("request_size", sort=True):
        plots.append(_over_fullness(part))
    text = (
        "One call of fallocate for a new file, in a file system that was mounted just before. Cold: nothing of what "
        "the allocator needs is in memory, which the device's reads show. Warm: the bitmaps of all groups are (ext4), "
        "or the same call was made before. A count is of the whole phase; a dash is a count that did not change. "
        f"Medians, in brackets their exact intervals, n = {groups.counts(of_calls)}."
    )
    return Section("One call of the allocator", text, [figure for figure in plots if figure], table=table)


def planted(data: Data) -> Section | None:
    """Groups that must be considered, computed beforehand, beside those that ext4 counted; time over them."""
    rows = rows_of(data, CALL_MS, "groups_considered")
    rows = rows[rows["run_percent"].notna() & (rows["cache"] == "warm") & rows[OPTION].notna()]
    table = [["state", "call", OPTION, "group of the run", "computed", "counted", "ms"]]
    points = []
    for row in rows[rows["measure"] == CALL_MS].to_dict("records"):
        counts = _same(rows, row).get("groups_considered")
        group = data.notes.get(row["state"], {}).get(PlantFreeSpace.kind, {}).get("run_group")
        if counts is None or group is None:
            continue
        expected = considered(group, bool(row[OPTION]))
        found = counts["median"]
        agree = "exactly" if set(counts["samples"]) == {expected} else "not always"
        size = round_size(row["request_size"])
        option = f"{row[OPTION]:g}"
        found_text = f"{found:,.0f}, {agree}"
        table.append([row["state"], size, option, f"{group:,}", f"{expected:,}", found_text, _shown(row)])
        points.append({**row, "x": float(found), "name": f"{size}, {OPTION}={option}"})
    if not points:
        return None
    drawn = pd.DataFrame(points)
    figure = figures.lines(
        "Time over groups considered",
        drawn,
        "name",
        figures.Axis("groups considered"),
        figures.Axis.from_zero("one call, ms", drawn, room=0.1),
    )
    text = (
        "All free space lies in holes that are too small, but for one run whose place is known. With "
        f"{OPTION}=0 ext4 looks at each group up to the run's: its number, and one for group 0. With 1 it looks at "
        "four groups in order, then takes the run's from a list by free extents; it counts that one twice."
    )
    return Section("Groups that must be considered", text, [figure], table=table)


def option(data: Data) -> Section | None:
    """How much longer calls take with mb_optimize_scan=0 than with 1."""
    table = [["state", "call", "", f"{OPTION}=0, ms", f"{OPTION}=1, ms", "ratio"]]
    for row, other in _by_option(rows_of(data, CALL_MS)):
        call = [row["state"], round_size(row["request_size"]), row["cache"]]
        table.append(
            [*call, _shown(row), _shown(other), words.times(statistics.ratio(row["samples"], other["samples"]))]
        )
    if len(table) == 1:
        return None
    text = (
        "The mount option says whether ext4 searches its groups in order (0) or in lists by their free extents (1). "
        "The ratio is the median of all pairwise ratios, with the interval that inverts the exact rank-sum test."
    )
    return Section(f"The option {OPTION}", text, [], table=table)


def unlinks(data: Data) -> Section | None:
    """What unlinking takes over the file's extents."""
    rows = rows_of(data, UNLINK_MS, "freed_ms", "kernel_threads_ms")
    of_calls = rows[rows["measure"] == UNLINK_MS]
    if of_calls.empty:
        return None
    several = len(of_calls[["cache", OPTION]].drop_duplicates()) > 1
    names = [row["state"] + (f", {_call(row)}" if several else "") for row in of_calls.to_dict("records")]
    of_calls = of_calls.assign(name=names)
    table = [["state", "extents", "unlink, ms", "until free, ms", "kernel threads, ms"]]
    for row in of_calls.to_dict("records"):
        same = _same(rows, row)
        shown = [_shown(same.get(name)) for name in (UNLINK_MS, "freed_ms", "kernel_threads_ms")]
        table.append([row["name"], f"{row['extents']:,.0f}", *shown])
    plots = []
    if of_calls["extents"].nunique() > 1:
        at, places = figures.placed(of_calls, "extents", sorted(of_calls["extents"].unique()))
        ticks = {place: f"{float(extents):,.0f}" for place, extents in places.items()}
        x = figures.Axis("extents of the file", ticks=ticks)
        plots.append(figures.lines("Unlinking a file", at, "name", x, _logarithmic(at)))
    text = (
        "Each extent is one block, with another file's block behind it. The file is unlinked cold, after a mount. "
        f"Until free: until the file system was synchronised and all blocks were free again. "
        f"n = {groups.counts(of_calls)}."
    )
    return Section("Unlinking a file", text, plots, table=table)


def mounts(data: Data) -> Section | None:
    """What mount and umount take in each state."""
    rows = rows_of(data, *MOUNTS)
    rows = rows[rows["request_size"].notna() & (rows["cache"] == "cold")]
    if rows.empty:
        return None
    table = [["state", *(name.replace("_ms", ", ms").replace("_cpu", ", of it CPU") for name in MOUNTS)]]
    for state, part in rows.groupby("state", sort=False):
        shown = []
        for name in MOUNTS:
            taken = part.loc[part["measure"] == name, "samples"].explode().dropna()
            if taken.empty:
                shown.append(Section.NONE)
            else:
                ends = f"{_number(taken.min())} to {_number(taken.max())}"
                shown.append(f"{_number(taken.median())} ({ends})")
        table.append([str(state), *shown])
    text = "After each cold call the file system was unmounted and mounted. Medians, with the least and the most."
    return Section("Umount and mount", text, [], table=table)


def counted_calls(data: Data) -> Section | None:
    """What calls gave, and what was looked at for them, counted in guests."""
    ends = [f"{call}_{key}" for call in ("fallocate", "fill", "unlink") for key in ("errno", "unended")]
    text = (
        "Nothing is timed. The error's number is 0 where the call was not refused. Extents are those of the new file, "
        "and free bytes those that are left."
    )
    names = ["measured_extents", *ends, "calls", "given_bytes", "left_bytes", *COUNTS]
    if "left_bytes" not in data.frame:  # it was timed
        return None
    return counted.section(data.frame, "What one call gives", text, names)


VIEW = View((calls, counted_calls, planted, option, unlinks, mounts, limits.section), answer=answer)
