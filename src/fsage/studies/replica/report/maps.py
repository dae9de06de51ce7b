"""What was copied of each layout, how much of it agrees with its original, and which layout costs most.

The worst is the one to drain or to defragment first.
"""

from __future__ import annotations

import math
from typing import Any

from fsage.analysis.groups import compared, measure_label
from fsage.analysis.words import span
from fsage.figures import Figure, Strips
from fsage.report.parts import Data, Section
from fsage.studies.replica.model import KeepFreeSpace, Replica
from fsage.studies.replica.recipe import COPIED
from fsage.text.sizes import round_size

WHY = {
    "metadata": "free in the original, and the target's own metadata lie there",
    "taken": "free in the original, in use here (maps of extents)",
    "left": "in use in the original, free here",
}


def copied(data: Data) -> dict[str, dict[str, Any]]:
    """State -> what its step noted, of the states that are replicas."""
    return {
        state: notes[kind]
        for state, notes in data.notes.items()
        for kind in (Replica.kind, KeepFreeSpace.kind)
        if kind in notes
    }


def is_copied(data: Data, state: str) -> bool:
    """Whether it has the free space of a layout as that lies."""
    return data.axes_of(state).get("holes") == COPIED


def maps(data: Data) -> Section | None:
    """A strip for each original and one for each of its states."""
    figures: list[Figure] = []
    for layout, states in _by_layout(data).items():
        strips: dict[str, tuple[float, ...]] = {}
        for state, noted in states.items():
            original = noted["original"]
            achieved = noted["found"]
            if original["device_bytes"] == achieved["device_bytes"]:
                strips.setdefault("original", _shares(original))
            strips[state.partition("@")[0]] = _shares(achieved)
        device_bytes = max(noted["found"]["device_bytes"] for noted in states.values())
        figures.append(Strips(f"Free space of {layout} and of its replica", strips, device_bytes))
    if not figures:
        return None
    text = (
        "The device from its first block to its last, dark where it is in use. The original is shown as its list of "
        "free extents has it; of a layout larger than the target there is a sample of its groups only."
    )
    return Section("The original and its replica", text, figures)


def agreement(data: Data) -> Section | None:
    """A row for each state: how many of the free bytes agree, one by one, and why the rest do not."""
    head = ["state", "source", "original", "free extents", "here", "agree", *WHY]
    rows = [
        [
            state,
            str(noted["source"]),
            f"{_full(noted['original']):.1f}% full",
            f"{noted['original']['free_extents']:,}",
            f"{noted['found']['free_extents']:,}",
            f"{math.floor(1e5 * noted['agree_share']) / 1e3:.3f}%",  # 100% only where nothing differs
            *(round_size(noted[f"{why}_bytes"]) for why in WHY),
        ]
        for state, noted in copied(data).items()
    ]
    if not rows:
        return None
    sentences = ["Bytes that are free in both, as a share of bytes that are free in either."]
    sentences += [f"Column {name}: {words}." for name, words in WHY.items()]
    if any("bitmap" in noted.get("held_by", "") for noted in copied(data).values()):
        sentences.append("No file holds what is in use here: it is marked in the block bitmaps.")
    return Section("How exactly it was copied", " ".join(sentences), [], warnings=_drawn(data), table=[head, *rows])


def _drawn(data: Data) -> list[str]:
    """Of samples how well they stand for the whole."""
    return [
        f"{state}: {len(drawn['windows'])} of {drawn['of_windows']} windows of {drawn['window_groups']} groups, "
        f"{100 * drawn['free_share_sample']:.1f}% free where the whole is {100 * drawn['free_share_whole']:.1f}%. "
        f"The earth mover's distance of free bytes by size is {_distance(drawn['emd_size'])} powers of two. That of "
        f"groups by free share is {_distance(drawn['emd_share'])}."
        for state, noted in copied(data).items()
        if "windows" in (drawn := noted.get("drawn") or {})
    ]


def _distance(distance: dict[str, float]) -> str:
    return f"{distance['this']:.3f} ({distance['low']:.3f} to {distance['high']:.3f} over {distance['draws']} draws)"


def _by_layout(data: Data) -> dict[str, dict[str, dict[str, Any]]]:
    by_layout: dict[str, dict[str, dict[str, object]]] = {}
    for state, noted in copied(data).items():
        axes = data.axes_of(state)
        original = axes["layout"] if "layout" in axes else axes["way"]  # of recipe replica, or of recipe aged
        by_layout.setdefault(str(original), {})[state] = noted
    return {layout: dict(sorted(states.items())) for layout, states in by_layout.items()}


def _shares(free_space: dict[str, Any]) -> tuple[float, ...]:
    return tuple(share / 100 for share in free_space["free_percent"])


def _full(free_space: dict[str, Any]) -> float:
    return 100 * (1 - free_space["free_bytes"] / free_space["device_bytes"])


def ranking(data: Data) -> Section | None:
    """A row for each layout, the slowest writes first: its rates over those of as much free space in one run."""
    rows = compared(data.table, "value")
    rows = rows[rows["main"] & rows["state"].map(lambda state: is_copied(data, str(state)))]
    measures = list(dict.fromkeys(rows["measure"]))
    if rows.empty:
        return None
    noted = copied(data)
    ranked: list[tuple[float, list[str]]] = []
    for state, part in rows.groupby("state", sort=False):
        by_measure = {str(row["measure"]): row["to_clean"] for _, row in part.iterrows()}
        axes = data.axes_of(str(state))
        of = next((notes for name, notes in noted.items() if data.axes_of(name) == axes), None)
        lies = ["", ""]
        if of:
            lies = [f"{_full(of['original']):.1f}%", f"{of['found']['free_extents']:,}"]
        cells = [span(by_measure[measure]) if measure in by_measure else "" for measure in measures]
        worst = min(factor.value for factor in by_measure.values())
        ranked.append((worst, [str(axes["layout"]), *lies, *cells]))
    head = ["layout", "full", "free extents", *(f"{measure_label(measure)[0]}s" for measure in measures)]
    table = [head, *(row for _, row in sorted(ranked, key=lambda entry: entry[0]))]
    text = (
        "Rates with the copied free space over rates with the same amount in one extent. The worst is first: drain or "
        "defragment it first, if this target resembles its device. An interval that contains 1 shows no cost."
    )
    return Section("What the age of each costs", text, [], table=table)
