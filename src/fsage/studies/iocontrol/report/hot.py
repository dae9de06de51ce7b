"""Defragmenting what is hot beside the whole file: what was moved, and what each gained."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fsage.analysis.words import times
from fsage.model.typed import Json
from fsage.report.section import Data, Section
from fsage.statistics import Ratio, ratio
from fsage.studies.iocontrol.report.rows import (
    AFTER,
    ALONE,
    BEFORE,
    CALLED,
    HOT,
    WEIGHTS,
    Shared,
    scheduler_label,
    shared,
)
from fsage.text.sizes import round_size

GAINS = ((ALONE["1"], "1"), ("P4", "1"), ("P4", "2"))
"""Pattern and group whose gain is shown, where it was measured."""


def hot(data: Data) -> Section | None:
    """A table of what was moved in each stage and what it gained, in words what the hot ranges alone did of that."""
    everything = shared(data, WEIGHTS)
    stages = dict.fromkeys(json.loads(axes)["stage"] for axes in data.frame["axes"].dropna().unique())
    if HOT not in stages:
        return None
    notes = _notes(data)
    gains = [f"{pattern}, {CALLED[WEIGHTS][group]}" for pattern, group in GAINS]
    table = [["scheduler", "pieces", "defragmented", "moved", "its extents", "took", *gains]]
    words, warnings = [], []
    for piece_bytes in dict.fromkeys(piece for piece, _ in notes):
        piece = round_size(piece_bytes)
        done = _done(notes, piece_bytes)
        if why := done[HOT].get("unsupported"):
            warnings.append(f"Pieces of {piece}: what is hot could not be defragmented alone: {why}.")
        elif (share := _share(done)) is not None:
            words.append(
                f"Pieces of {piece}: {round_size(done[HOT]['moved_bytes'])} were moved for what is hot, "
                f"{round_size(done[AFTER]['moved_bytes'])} for the whole file: {share:.0%}."
            )
        for scheduler in dict.fromkeys(case.scheduler for case in everything):
            cases = {
                (case.stage, case.pattern): case
                for case in everything
                if (case.scheduler, case.piece) == (scheduler, piece)
            }
            by_stage = {stage: [_gain(cases, stage, *which) for which in GAINS] for stage in (HOT, AFTER)}
            for stage, of_stage in by_stage.items():
                if done[stage] and "unsupported" not in done[stage]:
                    table.append(_row(scheduler, piece, stage, done[stage], of_stage))
            if (kept := _kept(by_stage)) is not None:
                words.append(
                    f"{scheduler_label(scheduler)}: the hot ranges alone gave {kept:.0%} of the whole file's gain."
                )
    text = (
        "Only the hot ranges of the fragmented file are read, in all stages. In stage hot, the file system's own call "
        "made each fragmented hot range contiguous, one range at a time. In stage after, its tool defragmented the "
        "whole file. A gain is the rate over the rate before. It is the median of all pairwise ratios, and the "
        "interval inverts the exact rank-sum test. " + " ".join(words)
    )
    return Section(
        "What is hot beside the whole file", text, [], warnings=warnings, table=table if len(table) > 1 else []
    )


def moved_share(data: Data, piece: str) -> float | None:
    """What was moved for what is hot in a file in pieces of a size, of what was for the whole file; None: not known."""
    notes = _notes(data)
    moved = (_share(_done(notes, piece_bytes)) for piece_bytes, _ in notes if round_size(piece_bytes) == piece)
    return next(moved, None)


def _notes(data: Data) -> dict[tuple[int, str], Json]:
    """(piece in bytes, stage) -> what the steps noted."""
    axes = data.frame.dropna(subset="axes").groupby("state")["axes"].first().map(json.loads)
    return {(axes[state]["piece_bytes"], axes[state]["stage"]): notes for state, notes in data.notes.items()}


def _done(notes: Mapping[tuple[int, str], Json], piece_bytes: int) -> dict[str, Json]:
    return {stage: notes.get((piece_bytes, stage), {}).get("defragment", {}) for stage in (HOT, AFTER)}


def _share(done: Mapping[str, Json]) -> float | None:
    hot, whole = (done[stage].get("moved_bytes") for stage in (HOT, AFTER))
    return hot / whole if hot is not None and whole else None


def _row(scheduler: str, piece: str, stage: str, done: Json, gains: list[Ratio | None]) -> list[str]:
    if stage == HOT:
        extents = f"{done['ranges_before']:,} to {done['ranges_after']:,}"
    else:
        extents = f"{done['before']['extents']:,} to {done['after']['extents']:,}"
    return [
        scheduler_label(scheduler),
        piece,
        "what is hot" if stage == HOT else "the whole file",
        round_size(done["moved_bytes"]),
        extents,
        f"{done['seconds']:.1f} s ({done['tool']})",
        *(times(gain) for gain in gains),
    ]


def _gain(shareds: Mapping[tuple[str, str], Shared], stage: str, pattern: str, group: str) -> Ratio | None:
    now, before = shareds.get((stage, pattern)), shareds.get((BEFORE, pattern))
    return ratio(now.bw_mib_s[group], before.bw_mib_s[group]) if now and before else None


def _kept(gains: Mapping[str, list[Ratio | None]]) -> float | None:
    """What share of the gain alone (the first of GAINS) the hot ranges gave; None where there was none to give."""
    hot, whole = gains[HOT][0], gains[AFTER][0]
    if not hot or not whole or hot.value is None or whole.value is None or whole.direction <= 0:
        return None
    return (hot.value - 1) / (whole.value - 1)
