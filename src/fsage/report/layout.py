"""What the layout of each state is: free space on the device, its extents and groups, how files lie."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

import pandas as pd

from fsage.analysis import wholeness
from fsage.analysis.groups import samples
from fsage.figures import Axis, Bars, Figure, Lines, Point, Series, Strips
from fsage.model.evidence.layout import StoreLayout as Store
from fsage.model.evidence.layout import StoresLayout as Layout
from fsage.report.evidence import Evidence
from fsage.report.section import Section
from fsage.text.sizes import round_size

TOGETHER = 12
"""At most so many strips in one figure, where the states of one capacity leave a choice."""
COMPARED = 4
"""Bars and lines of more states could not be told apart."""
NAMED = 6
PERCENT = (0.0, 105.0)


def section(evidence: Evidence, planned: list[str], headline: Iterable[str], frame: pd.DataFrame) -> Section:
    """The layouts of the planned states, in order; those of the headline are compared closely."""
    found = {state: evidence.layouts[state] for state in planned if state in evidence.layouts}
    chosen = _chosen(found, headline)
    figures: list[Figure] = [
        *_bitmaps(found, evidence),
        *_free_extents(chosen),
        *_aligned(chosen),
        *_groups(chosen),
        *_extents(chosen),
        *_scores(found, frame),
    ]
    warnings = [*wholeness.warnings(frame), *evidence.refused, *_without(planned, evidence), *_absent(found)]
    text = "No state has evidence of its layout."
    if found:
        compared = ", ".join(map(short, chosen))
        text = (
            "Taken when a state was reached, before anything was measured in it. Strips: the device from its first "
            f"block to its last, dark where it is in use. Compared closely: {compared}. The layout score is the share "
            "of a file's blocks that follow directly on the block before (Smith and Seltzer 1997): 1 is whole."
        )
    return Section("The layout of the states", text, figures, warnings=warnings)


def short(state: str) -> str:
    """'80.50@264M' -> '80.50'."""
    return state.split("@")[0]


def _chosen(found: dict[str, Layout], headline: Iterable[str]) -> dict[str, Layout]:
    """The headline's states, named in full or in part; without any, a few that span the plan."""
    asked = set(headline)
    names = [name for name in found if {name, short(name), short(name).split("+")[0]} & asked]
    if not names and found:
        every = list(found)
        names = [every[round(i * (len(every) - 1) / (COMPARED - 1))] for i in range(COMPARED)]
    return {name: found[name] for name in names[:COMPARED]}


def _bitmaps(found: dict[str, Layout], evidence: Evidence) -> Iterator[Figure]:
    for states in _together(found, evidence):
        stores = [(state, store) for state in states for store in found[state].stores]
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


def _together(found: dict[str, Layout], evidence: Evidence) -> list[list[str]]:
    """States for one figure each: those of one capacity are not parted, few of several stand together."""

    def capacities(state: str) -> list[float]:
        return [one["capacity_percent"] for one in evidence.known[state]["generations"]]

    batches: list[list[str]] = [[]]
    for nominal, group in groupby(found, capacities):
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
    found: dict[str, Counter[int]] = {}
    for state, layout in chosen.items():
        classes: Counter[int] = Counter()
        for free in (store.free_extents for store in layout.stores if store.free_extents):
            classes.update({one.from_bytes: one.bytes for one in free.histogram})
        if classes.total():
            found[state] = classes
    if not found:
        return
    seen = {size for classes in found.values() for size in classes}
    sizes = [1 << power for power in range(min(seen).bit_length() - 1, max(seen).bit_length())]
    yield Bars(
        "Free space by size of its extents",
        tuple(round_size(size) for size in sizes),
        {short(state): tuple(100 * one[size] / one.total() for size in sizes) for state, one in found.items()},
        Axis("size of a free extent, from (each class up to twice that)"),
        Axis("share of free bytes, %"),
    )


def _aligned(chosen: dict[str, Layout]) -> Iterator[Figure]:
    drawn = []
    for state, layout in chosen.items():
        inside: Counter[int] = Counter()  # bytes in aligned chunks, by their size
        free_bytes = 0
        for store in layout.stores:
            if store.aligned_free_share and store.free_bytes:
                free_bytes += store.free_bytes
                inside.update(
                    {int(size): round((of or 0) * store.free_bytes) for size, of in store.aligned_free_share.items()}
                )
        if free_bytes:
            sizes = sorted(inside)
            percent = [100 * inside[size] / free_bytes for size in sizes]
            drawn.append(Series(short(state), _points([math.log2(size) for size in sizes], percent)))
    if drawn:
        ticks = {point.x: round_size(1 << round(point.x)) for one in drawn for point in one.points}
        yield Lines(
            "Free space in aligned chunks",
            tuple(drawn),
            Axis("size of an aligned chunk (a transfer)", ticks=dict(sorted(ticks.items()))),
            Axis("share of free bytes, %", PERCENT),
        )


def _groups(chosen: dict[str, Layout]) -> Iterator[Figure]:
    found: dict[str, Counter[str]] = {}
    kinds = set()
    for state, layout in chosen.items():
        for groups in (store.groups for store in layout.stores if store.groups):
            kinds.add(groups.kind)
            found.setdefault(state, Counter()).update({one.label: one.groups for one in groups.buckets})
    found = {state: buckets for state, buckets in found.items() if buckets.total()}
    if found:
        labels = list(dict.fromkeys(label for buckets in found.values() for label in buckets))
        kind = " and ".join(sorted(kinds))
        yield Bars(
            f"{kind.capitalize()}s by free share",
            tuple(labels),
            {short(state): tuple(100 * one[label] / one.total() for label in labels) for state, one in found.items()},
            Axis(f"free share of a {kind}"),
            Axis(f"share of all {kind}s, %"),
        )


def _extents(chosen: dict[str, Layout]) -> Iterator[Figure]:
    """How many extents files have, a figure for each set of files; classes by power of two."""
    found: dict[str, dict[str, Counter[int]]] = {}
    for state, layout in chosen.items():
        for kind, files in ((kind, files) for store in layout.stores for kind, files in (store.files or {}).items()):
            classes = found.setdefault(kind, {}).setdefault(state, Counter())
            for extents, number in files.extents_per_file.items():
                classes[max(0, int(extents) - 1).bit_length()] += number
    for kind, by_state in found.items():
        by_state = {state: classes for state, classes in by_state.items() if classes.total()}
        if by_state:
            powers = range(max(max(classes) for classes in by_state.values()) + 1)
            shares = {
                short(state): tuple(100 * one[power] / one.total() for power in powers)
                for state, one in by_state.items()
            }
            yield Bars(
                f"Extents of a file, {kind}",
                tuple(str(1 << power) if power < 2 else f"{(1 << power - 1) + 1}-{1 << power}" for power in powers),
                shares,
                Axis("extents of a file"),
                Axis("share of files, %"),
            )


def _scores(found: dict[str, Layout], frame: pd.DataFrame) -> Iterator[Figure]:
    """Layout scores over real fullness, of the filler and, where records have it, of the measured files."""
    mine = samples(frame)
    fullness = mine.groupby("state")["real_fullness_percent"].median()
    scores: dict[str, dict[str, float]] = {}
    for state, layout in found.items():
        for store in layout.stores:
            for kind, files in (store.files or {}).items():
                if files.layout_score is not None and state in fullness:
                    before = scores.setdefault(kind, {}).get(state, 1.0)
                    scores[kind][state] = min(before, files.layout_score)
    measured = mine[mine["state"].isin(list(found))].groupby("state")["measured_layout_score"].median().dropna()
    scores |= {"measured files": {str(state): value for state, value in measured.items()}} if len(measured) else {}
    drawn = [
        Series(kind, _points([fullness[state] for state in one], list(one.values())), joined=False)
        for kind, one in scores.items()
    ]
    if drawn:
        lowest = min(point.y for one in drawn for point in one.points)
        yield Lines(
            "Layout score over real fullness",
            tuple(drawn),
            Axis("real fullness, % of capacity in use"),
            Axis("layout score (1: whole), worst store", (0.0, 1.05) if lowest < 0.9 else (0.9, 1.005)),
        )


def _points(xs: list[float], ys: list[float]) -> tuple[Point, ...]:
    return tuple(Point(x, y) for x, y in zip(xs, ys, strict=True))


def _without(planned: list[str], evidence: Evidence) -> list[str]:
    lacking = [state for state in planned if state in evidence.without]
    if not lacking:
        return []
    names = ", ".join(lacking[:NAMED]) + (f" and {len(lacking) - NAMED} more" if len(lacking) > NAMED else "")
    return [f"No evidence of {len(lacking)} states: {names}."]


def _absent(found: dict[str, Layout]) -> list[str]:
    """What the source of the evidence could not give, and why: a sentence for each reason."""
    keys: dict[str, dict[str, None]] = {}
    states: dict[str, set[str]] = {}
    for state, layout in found.items():
        for store in layout.stores:
            for key, why in store.absent.items():
                keys.setdefault(why, {})[key] = None
                states.setdefault(why, set()).add(state)
    return [
        f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} not known in {len(states[why])} states: {why}."
        for why, names in keys.items()
    ]
