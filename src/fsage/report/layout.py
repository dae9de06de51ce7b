"""What the layout of each state is: free space on the device, its extents and groups, how files lie.

Where measured files lie, and whether that explains their time: extents over layouts, and time over jumps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from fsage.analysis import validity
from fsage.analysis.comparisons import at_largest_transfer, of_state
from fsage.analysis.groups import Measure, samples
from fsage.base.sizes import counted, round_size
from fsage.figures import Axis, Figure, Lines, Point, Series, Strips, lines, shares
from fsage.layouts.store import StoreLayout as Store
from fsage.layouts.store import StoresLayout as Layout
from fsage.report.evidence import Evidence
from fsage.report.parts import Section

TOGETHER = 12
"""At most so many strips in one figure, where the states of one capacity leave a choice."""
COMPARED = 4
"""Bars and lines of more states could not be told apart."""
NAMED = 6
MOST_STRIPS = 2
PERCENT = (0.0, 105.0)


def section(evidence: Evidence, planned: list[str], headline: Iterable[str], frame: pd.DataFrame) -> Section:
    """The layouts of the planned states, in order; those of the headline are compared closely."""
    layouts = {state: evidence.layouts[state] for state in planned if state in evidence.layouts}
    chosen = _chosen(layouts, headline)
    figures: list[Figure] = [
        *_bitmaps(layouts, evidence),
        *_free_extents(chosen),
        *_aligned(chosen),
        *_groups(chosen),
        *_extents(chosen),
        *_scores(layouts, frame),
    ]
    warnings = [*validity.of_references(frame), *evidence.refused, *_without(planned, evidence), *_absent(layouts)]
    text = "No state has evidence of its layout."
    if layouts:
        compared = ", ".join(map(short, chosen))
        text = (
            "Taken when a state was reached, before anything was measured in it. Strips: the device from its first "
            f"block to its last, dark where it is in use. Compared closely: {compared}. The layout score is the share "
            "of a file's blocks that follow directly on the block before (Smith and Seltzer 1997): 1 is whole."
        )
    strips = sum(isinstance(figure, Strips) for figure in figures)
    return Section("The layout of the states", text, figures, warnings=warnings, front=min(strips, MOST_STRIPS))


def short(state: str) -> str:
    """'80.50@264M' -> '80.50'."""
    return state.split("@")[0]


def _shortened(by_state: Mapping[str, Counter[Any]]) -> dict[str, Counter[Any]]:
    return {short(state): counts for state, counts in by_state.items()}


def _chosen(layouts: dict[str, Layout], headline: Iterable[str]) -> dict[str, Layout]:
    """The headline's states, named in full or in part; without any, a few that span the plan."""
    asked = set(headline)
    names = [name for name in layouts if {name, short(name), short(name).split("+")[0]} & asked]
    if not names and layouts:
        every = list(layouts)
        names = [every[round(i * (len(every) - 1) / (COMPARED - 1))] for i in range(COMPARED)]
    return {name: layouts[name] for name in names[:COMPARED]}


def _bitmaps(layouts: dict[str, Layout], evidence: Evidence) -> Iterator[Figure]:
    for states in _together(layouts, evidence):
        stores = [(state, store) for state in states for store in layouts[state].stores]
        several = len({store.store for _, store in stores}) > 1
        strips = {
            short(state) + (f" · {store.store}" if several else ""): tuple(store.bitmap.free_share)
            for state, store in stores
            if store.bitmap
        }
        if strips:
            device_bytes = max(_device_bytes(store) for _, store in stores)
            names = list(dict.fromkeys([short(states[0]), short(states[-1])]))
            yield Strips(f"Free space, {' to '.join(names)}", strips, device_bytes)


def _together(layouts: dict[str, Layout], evidence: Evidence) -> list[list[str]]:
    """States for one figure each: those of one capacity are not parted, few of several stand together."""

    def capacities(state: str) -> list[float]:
        return [generation["capacity_percent"] for generation in evidence.known[state]["generations"]]

    batches: list[list[str]] = [[]]
    for nominal, group in groupby(layouts, capacities):
        names = list(group)
        for part in [names] if nominal else [names[at : at + TOGETHER] for at in range(0, len(names), TOGETHER)]:
            if batches[-1] and len(batches[-1]) + len(part) > TOGETHER:
                batches.append([])
            batches[-1].extend(part)
    return [batch for batch in batches if batch]


def _device_bytes(store: Store) -> int:
    bitmap = store.bitmap
    return store.device_bytes or (bitmap.bin_bytes * len(bitmap.free_share) if bitmap else 0)


def _free_extents(chosen: dict[str, Layout]) -> Iterator[Figure]:
    by_state: dict[str, Counter[int]] = {}
    for state, layout in chosen.items():
        classes: Counter[int] = Counter()
        for free in (store.free_extents for store in layout.stores if store.free_extents):
            classes.update({size_class.from_bytes: size_class.bytes for size_class in free.histogram})
        if classes.total():
            by_state[state] = classes
    if not by_state:
        return
    x = Axis("size of a free extent, from (each class up to twice that)")
    y = Axis("share of free bytes, %")
    yield shares("Free space by size of its extents", _shortened(by_state), x, y)


def _aligned(chosen: dict[str, Layout]) -> Iterator[Figure]:
    rows = []
    for state, layout in chosen.items():
        inside: Counter[int] = Counter()  # bytes in aligned chunks, by their size
        free_bytes = 0
        for store in layout.stores:
            if store.aligned_free_share and store.free_bytes:
                free_bytes += store.free_bytes
                inside.update(
                    {int(size): round((of or 0) * store.free_bytes) for size, of in store.aligned_free_share.items()}
                )
        rows += [(short(state), size, 100 * inside_bytes / free_bytes) for size, inside_bytes in inside.items()]
    if rows:
        table = pd.DataFrame(rows, columns=["line", "size", "median"])
        ticks = {math.log2(size): round_size(size) for size in sorted(table["size"].unique())}
        x = Axis("size of an aligned chunk (a transfer)", ticks=ticks)
        y = Axis("share of free bytes, %", PERCENT)
        yield lines("Free space in aligned chunks", table.assign(x=table["size"].map(math.log2)), "line", x, y)


def _groups(chosen: dict[str, Layout]) -> Iterator[Figure]:
    by_state: dict[str, Counter[str]] = {}
    kinds = set()
    for state, layout in chosen.items():
        for groups in (store.groups for store in layout.stores if store.groups):
            kinds.add(groups.kind)
            by_state.setdefault(state, Counter()).update({bucket.label: bucket.groups for bucket in groups.buckets})
    by_state = {state: buckets for state, buckets in by_state.items() if buckets.total()}
    if by_state:
        labels = {label: label for buckets in by_state.values() for label in buckets}
        kind = " and ".join(sorted(kinds))
        x = Axis(f"free share of a {kind}")
        y = Axis(f"share of all {kind}s, %")
        yield shares(f"{kind.capitalize()}s by free share", _shortened(by_state), x, y, labels)


def _extents(chosen: dict[str, Layout]) -> Iterator[Figure]:
    """How many extents files have, a figure for each set of files; classes by power of two."""
    by_kind: dict[str, dict[str, Counter[int]]] = {}
    for state, layout in chosen.items():
        for store in layout.stores:
            for kind, files in (store.files or {}).items():
                classes = by_kind.setdefault(kind, {}).setdefault(state, Counter())
                for extents, number in files.extents_per_file.items():
                    classes[max(0, int(extents) - 1).bit_length()] += number
    for kind, by_state in by_kind.items():
        by_state = {state: classes for state, classes in by_state.items() if classes.total()}
        if by_state:
            classes_of = {
                power: str(1 << power) if power < 2 else f"{(1 << power - 1) + 1}-{1 << power}"
                for power in range(max(map(max, by_state.values())) + 1)
            }
            x = Axis("extents of a file")
            y = Axis("share of files, %")
            yield shares(f"Extents of a file, {kind}", _shortened(by_state), x, y, classes_of)


def _scores(layouts: dict[str, Layout], frame: pd.DataFrame) -> Iterator[Figure]:
    """Layout scores over real fullness, of the filler and, where records have it, of the measured files."""
    valid_rows = samples(frame)
    fullness = valid_rows.groupby("state")["real_fullness_percent"].median()
    scores: dict[str, dict[str, float]] = {}
    for state, layout in layouts.items():
        for store in layout.stores:
            for kind, files in (store.files or {}).items():
                if files.layout_score is not None and state in fullness:
                    before = scores.setdefault(kind, {}).get(state, 1.0)
                    scores[kind][state] = min(before, files.layout_score)
    measured = (
        valid_rows[valid_rows["state"].isin(list(layouts))].groupby("state")["measured_layout_score"].median().dropna()
    )
    scores |= {"measured files": {str(state): value for state, value in measured.items()}} if len(measured) else {}
    rows = pd.DataFrame(
        {"kind": kind, "x": fullness[state], "median": score}
        for kind, of_kind in scores.items()
        for state, score in of_kind.items()
    )
    if len(rows):
        x = Axis("real fullness, % of capacity in use")
        y = Axis("layout score (1: whole), worst store", (0.0, 1.05) if rows["median"].min() < 0.9 else (0.9, 1.005))
        yield lines("Layout score over real fullness", rows, "kind", x, y, joined=False)


def _without(planned: list[str], evidence: Evidence) -> list[str]:
    lacking = [state for state in planned if state in evidence.without]
    if not lacking:
        return []
    names = ", ".join(lacking[:NAMED]) + (f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else "")
    return [f"No evidence of {counted(len(lacking), 'state')}: {names}."]


def _absent(layouts: dict[str, Layout]) -> list[str]:
    """What the source of the evidence could not give, and why: a sentence for each reason."""
    keys: dict[str, dict[str, None]] = {}
    states: dict[str, set[str]] = {}
    for state, layout in layouts.items():
        for store in layout.stores:
            for key, why in store.absent.items():
                keys.setdefault(why, {})[key] = None
                states.setdefault(why, set()).add(state)
    return [
        f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} not known "
        f"in {counted(len(states[why]), 'state')}: {why}."
        for why, names in keys.items()
    ]


MOST_STATES = 8
LEAST = 5
"""So many files, and different counts of jumps, a line through them needs."""
EXTENTS = "measured_extents"
JUMPS = "measured_jumps"
CHARGES = "model_seconds"
PHASES = ("write", "read")
HEADS = ["measure", "ms a jump", "at 95%", "charged", "r\u00b2", "files", "unexplained, %"]


def charges(frame: pd.DataFrame, states: Sequence[str]) -> Section | None:
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
    columns = {f"{phase}_seconds": Measure.of(f"{phase}_bw_mib_s").doing for phase in PHASES} | {
        CHARGES: "charged by the device"
    }
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
