"""Whether the samples of a study can be relied on.

What became of the planned cells: counts, gaps, samples that are too short, references that are fragmented. And whether
anything changed while it was measured: trends within each state, in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from fsage.analysis.conditions import AXES, labelled
from fsage.analysis.groups import Measure, measures, samples
from fsage.analysis.words import line, sentences
from fsage.plan.settings import Commands
from fsage.plan.target import Target
from fsage.statistics import ALPHA, adjust_exploratory, trend
from fsage.study import Study


@dataclass(frozen=True)
class Drifts:
    """The drifts that `tests` trend tests find, the surest first: 'writes at 80.00 fall (tau -0.80, p=0.01)'."""

    tests: int
    found: list[str]


def drifts(frame: pd.DataFrame) -> Drifts:
    """States in which the samples of all groups, each over its group's mean, rise or fall with time.

    The cells of a state are measured in an order drawn at random, so that under no drift every order of these is as
    likely as any other: the trend test is exact, however much the groups differ. Under false-discovery control.
    """
    valid_rows = in_groups(samples(frame))
    tested = []
    for measure in measures(valid_rows):
        rows = over_group(valid_rows[valid_rows[measure].notna()], measure, pd.Series.mean)
        rows = rows[rows["size"] > 1]  # a sample alone is its own mean
        rows = rows.sort_values(["began", "order_in_state"], kind="stable")
        for state, part in rows.groupby("state", sort=False):
            result = trend(part["y"].tolist())
            if result.p is not None:
                tested.append((f"{Measure.of(measure).name}s at {state}", result))
    ps = adjust_exploratory([result.p for _, result in tested])
    found = []
    for p, (what, result) in sorted(zip(ps, tested, strict=True), key=lambda pair: pair[0] or 0.0):
        if p is not None and p <= ALPHA:
            way = "rise" if (result.tau or 0) > 0 else "fall"
            found.append(f"{what} {way} (tau {result.tau:+.2f}, p={p:.2g})")
    return Drifts(len(tested), found)


def in_groups(taken: pd.DataFrame) -> pd.DataFrame:
    """Samples with what `over_group` tells groups by: the layout, and the conditions as `setting`."""
    return taken.assign(setting=labelled(taken)["setting"], layout_digest=taken["layout_digest"].fillna("unknown"))


def over_group(taken: pd.DataFrame, measure: str, centre: Callable[[pd.Series], float]) -> pd.DataFrame:
    """Those of `in_groups` with a group: `y` is over the centre of its `size` planned samples."""
    keys = [*AXES, "setting", "layout_digest"]
    centres = taken[taken["kind"] == "planned"].groupby(keys, dropna=False)[measure].agg(centre=centre, size="size")
    merged = taken.merge(centres, how="left", left_on=keys, right_index=True)
    return merged.assign(y=merged[measure] / merged["centre"]).dropna(subset="y")


SHORT_SAMPLE_S = 1.0
SHOWN = 20
REASONS = 2
STATUSES = ("valid", "skipped", "failed", "stopped", "unsupported", "unreadable")
WITHOUT_GAP = ("valid", "skipped")

PlannedCell = tuple[str, str, str]
"""State, cell, kind."""


def counts_of_cells(frame: pd.DataFrame, cells: list[PlannedCell]) -> dict[str, int]:
    """Planned cells by what became of them; valid cells of other kinds are extras, by kind.

    `beside`: records of cells that are not in the plan, such as those of a wider one; they are counted in no other.
    """
    extra = ~frame["kind"].isin(["planned", "unknown"])
    in_plan = pd.MultiIndex.from_tuples([cell[:2] for cell in cells] or [("", "")])
    is_planned = pd.Series(pd.MultiIndex.from_frame(frame[["state", "cell"]]).isin(in_plan), frame.index)
    of_plan = frame.loc[~extra & is_planned, "status"].value_counts()
    numbers = {
        "planned": sum(kind == "planned" for *_, kind in cells),
        "beside": int((~extra & ~is_planned).sum()),
        "missing": sum(kind == "planned" for *_, kind in missing(frame, cells)),
    }
    for status in STATUSES:
        numbers[status] = int(of_plan.get(status, 0))
    return numbers


def extras(frame: pd.DataFrame) -> dict[str, int]:
    """Valid cells that are not planned ones, by kind."""
    valid = frame[(frame["status"] == "valid") & ~frame["kind"].isin(["planned", "unknown"])]
    return {str(kind): int(count) for kind, count in valid["kind"].value_counts(sort=False).items()}


def failures(frame: pd.DataFrame) -> list[str]:
    """A sentence on cells that failed and why; none where none did."""
    failed = frame[frame["status"].isin(["failed", "stopped"]) & (frame["kind"] == "planned")]
    reasons = failed["why"].fillna("no reason is known").map(line).value_counts()
    stopped = (failed["status"] == "stopped").any()
    return sentences("failures", reasons=reasons.to_dict(), stopped=stopped, shown=REASONS)


def missing(frame: pd.DataFrame, cells: list[PlannedCell]) -> list[PlannedCell]:
    """Cells of the plan, of any kind, without a record."""
    recorded = set(zip(frame["state"], frame["cell"], strict=True))
    return [cell for cell in cells if cell[:2] not in recorded]


def gaps(frame: pd.DataFrame, cells: list[PlannedCell]) -> list[dict[str, object]]:
    """What gave no number, by what became of it, state and reason."""
    rows = frame.loc[~frame["status"].isin(WITHOUT_GAP), ["status", "state", "cell", "why"]]
    lacking = pd.DataFrame(missing(frame, cells), columns=["state", "cell", "kind"])
    lacking = lacking.assign(status="missing", why="not measured yet")
    rows = pd.concat([rows, lacking])
    if rows.empty:
        return []
    table = rows.groupby(["status", "state", "why"], sort=False, dropna=False)["cell"]
    return [
        {"status": status, "state": state, "why": why, "count": len(names), "cells": list(names)[:3]}
        for (status, state, why), names in table
    ]


def commands(study: Study, target: Target) -> dict[str, str]:
    """What measures again, and only what is not there."""
    command = Commands.usual(study.name, target.name)
    return {
        "missing": command.measure,
        "failed": command.remeasure("--failed"),
        "unreadable": command.remeasure("--state", "STATE"),
        # of several targets a cell's name tells its target too, and the command would have to
        "cell": "" if "," in target.name else command.remeasure("--state", "STATE", "--cell", "CELL"),
    }


def short_samples(frame: pd.DataFrame) -> dict[str, object]:
    """Samples below a second by the tool's own clock."""
    timed = [
        {"state": row["state"], "cell": row["cell"], "phase": phase, "seconds": row[f"{phase}_seconds"]}
        for phase in ("write", "read")
        for row in samples(frame).dropna(subset=f"{phase}_seconds").to_dict("records")
    ]
    rows = [row for row in timed if row["seconds"] < SHORT_SAMPLE_S]
    rows.sort(key=lambda row: (row["seconds"], row["state"], row["cell"]))
    return {"timed": len(timed), "count": len(rows), "shown": rows[:SHOWN]}


TIMES = 2.0
"""Up to this multiple of one extent a file is no sign of fragmentation: the file system's own blocks split files."""
FEW = 3
"""States that a sentence names."""


def fragmented_references(frame: pd.DataFrame) -> dict[str, str]:
    """State without deleted files -> its extents, where these are too many: '16 extents instead of 1'."""
    valid_rows = samples(frame)
    valid_rows = valid_rows[valid_rows["fragmentation_percent"] == 0]
    too_many = {}
    for state, part in valid_rows.dropna(subset=["measured_extents", "measured_files"]).groupby("state"):
        extents = part["measured_extents"].median()
        least = part["measured_files"].median()
        if extents > TIMES * least:
            too_many[str(state)] = f"{extents:.0f} extents instead of {least:.0f}"
    return too_many


def of_references(frame: pd.DataFrame) -> list[str]:
    """Sentences for all these states together."""
    return sentences("references", references=fragmented_references(frame), shown=FEW)
