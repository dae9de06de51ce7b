"""What the layout of each state is: free space on the device, its extents and groups, how files lie.

Where measured files lie, and whether that explains their time: extents over layouts, and time over jumps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median

import pandas as pd

from fsage.analysis import validity
from fsage.analysis.comparisons import of_state
from fsage.analysis.groups import samples
from fsage.analysis.words import few, short_names
from fsage.base import Json
from fsage.base.sizes import counted
from fsage.figures import Axis, Figure, Lines, Point, Series, Strips, doubling, lines, placed, shares
from fsage.layouts.store import StoreLayout as Store
from fsage.layouts.store import StoresLayout as Layout
from fsage.report.evidence import Evidence
from fsage.report.parts import Section
from fsage.study.comparisons import any_means, unseeded

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
        compared = ", ".join(chosen)
        text = (
            "Taken when a state was reached, before anything was measured in it. Strips: the device from its first "
            f"block to its last, dark where it is in use. Compared closely: {compared}. The layout score is the share "
            "of a file's blocks that follow directly on the block before (Smith and Seltzer 1997): 1 is whole."
        )
    strips = sum(isinstance(figure, Strips) for figure in figures)
    return Section("The layout of the states", text, figures, warnings=warnings, front=min(strips, MOST_STRIPS))


def _chosen(layouts: dict[str, Layout], headline: Iterable[str]) -> dict[str, Layout]:
    """A layout of each of the headline's states, by short name; without any, a few that span the plan."""
    names = list({unseeded(name): name for name in reversed(layouts) if any_means(headline, name)}.values())[::-1]
    if not names and layouts:
        every = list(layouts)
        for number in range(COMPARED):
            names.append(every[round(number * (len(every) - 1) / (COMPARED - 1))])
    short = short_names(layouts)
    return {short[name]: layouts[name] for name in names[:COMPARED]}


def _bitmaps(layouts: dict[str, Layout], evidence: Evidence) -> Iterator[Figure]:
    short = short_names(layouts)
    for states in _together(layouts, evidence):
        several = len({store.store for state in states for store in layouts[state].stores}) > 1
        strips = {}
        device_bytes = 0
        for state in states:
            for store in layouts[state].stores:
                device_bytes = max(device_bytes, _device_bytes(store))
                if store.bitmap:
                    label = f"{short[state]} \u00b7 {store.store}" if several else short[state]
                    strips[label] = tuple(store.bitmap.free_share)
        if strips:
            names = dict.fromkeys([short[states[0]], short[states[-1]]])
            yield Strips(f"Free space, {' to '.join(names)}", strips, device_bytes)


def _together(layouts: dict[str, Layout], evidence: Evidence) -> list[list[str]]:
    """States for one figure each: those of one capacity are not parted, few of several stand together."""

    def capacities(state: str) -> list[float]:
        return [generation["capacity_percent"] for generation in evidence.known[state]["generations"]]

    batches: list[list[str]] = [[]]
    for nominal, group in groupby(layouts, capacities):
        names = list(group)
        size = len(names) if nominal else TOGETHER
        for at in range(0, len(names), size):
            part = names[at : at + size]
            if batches[-1] and len(batches[-1]) + len(part) > TOGETHER:
                batches.append([])
            batches[-1].extend(part)
    return list(filter(None, batches))


def _device_bytes(store: Store) -> int:
    bitmap = store.bitmap
    return store.device_bytes or (bitmap.bin_bytes * len(bitmap.free_share) if bitmap else 0)


def _free_extents(chosen: dict[str, Layout]) -> Iterator[Figure]:
    by_state: dict[str, Counter[int]] = {}
    for state, layout in chosen.items():
        classes: Counter[int] = Counter()
        for store in layout.stores:
            if store.free_extents:
                for size_class in store.free_extents.histogram:
                    classes[size_class.from_bytes] += size_class.bytes
        if classes.total():
            by_state[state] = classes
    if by_state:
        x = Axis("size of a free extent, from (each class up to twice that)")
        y = Axis("share of free bytes, %")
        yield shares("Free space by size of its extents", by_state, x, y)


def _aligned(chosen: dict[str, Layout]) -> Iterator[Figure]:
    rows = []
    for state, layout in chosen.items():
        inside: Counter[int] = Counter()  # bytes in aligned chunks, by their size
        free_bytes = 0
        for store in layout.stores:
            if store.aligned_free_share and store.free_bytes:
                free_bytes += store.free_bytes
                for size, share in store.aligned_free_share.items():
                    inside[int(size)] += round((share or 0) * store.free_bytes)
        for chunk_bytes, inside_bytes in inside.items():
            rows.append((state, chunk_bytes, 100 * inside_bytes / free_bytes))
    if rows:
        by_size, ticks = doubling(pd.DataFrame(rows, columns=["line", "size", "median"]), "size")
        x = Axis("size of an aligned chunk (a transfer)", ticks=ticks)
        y = Axis("share of free bytes, %", PERCENT)
        yield lines("Free space in aligned chunks", by_size, "line", x, y)


def _groups(chosen: dict[str, Layout]) -> Iterator[Figure]:
    by_state: dict[str, Counter[str]] = {}
    kinds = set()
    for state, layout in chosen.items():
        buckets: Counter[str] = Counter()
        for store in layout.stores:
            if store.groups:
                kinds.add(store.groups.kind)
                for bucket in store.groups.buckets:
                    buckets[bucket.label] += bucket.groups
        if buckets.total():
            by_state[state] = buckets
    if by_state:
        labels = {label: label for buckets in by_state.values() for label in buckets}
        kind = " and ".join(sorted(kinds))
        x = Axis(f"free share of a {kind}")
        y = Axis(f"share of all {kind}s, %")
        yield shares(f"{kind.capitalize()}s by free share", by_state, x, y, labels)


def _extents(chosen: dict[str, Layout]) -> Iterator[Figure]:
    """How many extents files have, a figure for each set of files; classes by power of two."""
    by_kind: dict[str, dict[str, Counter[int]]] = {}
    for state, layout in chosen.items():
        for store in layout.stores:
            for kind, files in (store.files or {}).items():
                if any(files.extents_per_file.values()):
                    classes = by_kind.setdefault(kind, {}).setdefault(state, Counter())
                    for extents, number in files.extents_per_file.items():
                        classes[max(0, int(extents) - 1).bit_length()] += number
    for kind, by_state in by_kind.items():
        names = {0: "1"}
        for power in range(1, max(map(max, by_state.values())) + 1):
            names[power] = f"{(1 << power - 1) + 1}-{1 << power}" if power > 1 else "2"
        x = Axis("extents of a file")
        y = Axis("share of files, %")
        yield shares(f"Extents of a file, {kind}", by_state, x, y, names)


def _scores(layouts: dict[str, Layout], frame: pd.DataFrame) -> Iterator[Figure]:
    """Layout scores over real fullness, of the filler and, where records have it, of the measured files."""
    valid_rows = samples(frame)
    scores = []
    for state, layout in layouts.items():
        for store in layout.stores:
            for kind, files in (store.files or {}).items():
                if files.layout_score is not None:
                    scores.append((kind, state, files.layout_score))
    of_states = valid_rows[valid_rows["state"].isin(list(layouts))].groupby("state")
    for state, score in of_states["measured_layout_score"].median().dropna().items():
        scores.append(("measured files", str(state), score))
    rows = pd.DataFrame(scores, columns=["kind", "state", "median"])
    rows = rows.groupby(["kind", "state"], sort=False, as_index=False).min()  # that of the worst store
    rows = rows.assign(x=rows["state"].map(of_states["real_fullness_percent"].median())).dropna(subset="x")
    if len(rows):
        x = Axis("real fullness, % of capacity in use")
        y = Axis("layout score (1: whole), worst store", (0.0, 1.05) if rows["median"].min() < 0.9 else (0.9, 1.005))
        yield lines("Layout score over real fullness", rows, "kind", x, y, joined=False)


def _without(planned: list[str], evidence: Evidence) -> list[str]:
    lacking = [state for state in planned if state in evidence.without]
    if lacking:
        return [f"No evidence of {counted(len(lacking), 'state')}: {few(lacking, NAMED)}."]
    return []


def _absent(layouts: dict[str, Layout]) -> list[str]:
    """What the source of the evidence could not give, and why: a sentence for each reason."""
    keys: dict[str, dict[str, None]] = {}
    states: dict[str, set[str]] = {}
    for state, layout in layouts.items():
        for store in layout.stores:
            for key, why in store.absent.items():
                keys.setdefault(why, {})[key] = None
                states.setdefault(why, set()).add(state)
    sentences = []
    for why, names in keys.items():
        verb = "are" if len(names) > 1 else "is"
        sentences.append(f"{', '.join(names)} {verb} not known in {counted(len(states[why]), 'state')}: {why}.")
    return sentences


MOST_STATES = 8
LEAST = 5
"""So many files, and different counts of jumps, a line through them needs."""
EXTENTS = "measured_extents"
JUMPS = "measured_jumps"
CHARGES = "model_seconds"
PHASES = ("write", "read")
HEADS = ["measure", "ms a jump", "at 95%", "charged", "r\u00b2", "files", "unexplained, %"]


def charges(rows: pd.DataFrame, states: Sequence[str]) -> Section | None:
    """None where no file system tells where files lie. `states`: those that the study compares; none: all."""
    figures = [figure for figure in (extents(rows, states), over_jumps(rows)) if figure]
    if not figures:
        return None
    table = slopes(rows)
    text = "Each stroke is a measured file, at the largest transfer."
    names = set(states or rows["state"])
    if len(names) > MOST_STATES:
        text += f" The first {MOST_STATES} of {len(names)} states are drawn."
    if table:
        text += (
            " A line goes through the time of all files over their jumps. Beside its slope stands what the device "
            "charges for a jump, in ms. Unexplained is the standard deviation about the line, as a share of the time."
        )
    return Section("Where measured files lie", text, figures, table=[HEADS, *table], front=len(figures))


def extents(rows: pd.DataFrame, states: Sequence[str]) -> Figure | None:
    """The extents of each state's files over its layouts and places."""
    points: list[Json] = []
    short = short_names(states or rows["state"])
    for name in short:
        counts = of_state(rows, name)[EXTENTS].dropna().astype(float).tolist()
        if counts and len(points) < MOST_STATES:
            numbers = {"median": median(counts), "n": len(counts), "samples": counts}
            points.append({"line": "median and files", "state": short[name], **numbers})
    if not points:
        return None
    by_state, ticks = placed(pd.DataFrame(points), "state")
    y = Axis.from_zero("extents", by_state, room=0.1)
    return lines("Extents over layouts and places", by_state, "line", Axis("state", ticks=ticks), y, joined=False)


def over_jumps(rows: pd.DataFrame) -> Figure | None:
    """Time over jumps, and what the device charges where it is modelled."""
    if rows[JUMPS].nunique() < 2:
        return None
    series = []
    columns = {"write_seconds": "writing", "read_seconds": "reading", CHARGES: "charged by the device"}
    for column, label in columns.items():
        points = []
        for jumps, taken in rows.dropna(subset=[column, JUMPS]).groupby(JUMPS)[column]:
            points.append(Point(float(jumps), float(taken.median()), samples=tuple(map(float, taken))))
        if points:
            series.append(Series(label, tuple(points), joined=column == CHARGES))
    if not series:
        return None
    return Lines("Counts against time", tuple(series), Axis("jumps that are charged"), Axis("time of a file, s"))


def slopes(rows: pd.DataFrame) -> list[list[str]]:
    """A row a phase: a line through the time of all files over their jumps, beside what the device charges for one."""
    rows = rows.assign(place=rows["place"].fillna(1))
    return list(filter(None, [_slope(rows, phase) for phase in PHASES]))


def _slope(rows: pd.DataFrame, phase: str) -> list[str]:
    seconds = f"{phase}_seconds"
    known = rows.dropna(subset=[seconds, JUMPS])
    files = known.groupby(["state", "layout_digest", "place"])[[seconds, JUMPS, CHARGES]].median().astype(float)
    if files[JUMPS].nunique() < LEAST:
        return []
    from scipy import stats

    line = stats.linregress(files[JUMPS], files[seconds])
    reach = stats.t.ppf(0.975, len(files) - 2) * line.stderr
    rest = files[seconds] - line.intercept - line.slope * files[JUMPS]
    of_model = files.dropna()
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
