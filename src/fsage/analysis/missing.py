"""What became of the planned cells: counts, gaps, samples that are too short, references that are fragmented."""

from __future__ import annotations

import pandas as pd

from fsage.analysis.groups import samples
from fsage.plan.settings import Commands
from fsage.plan.target import Target
from fsage.study.study import Study
from fsage.text.sizes import counted

SHORT_SAMPLE_S = 1.0
SHOWN = 20
REASONS = 2
STATUSES = ("valid", "skipped", "failed", "stopped", "unsupported", "unreadable")
WITHOUT_GAP = ("valid", "skipped")

PlannedCell = tuple[str, str, str]
"""State, cell, kind."""


def counts(frame: pd.DataFrame, cells: list[PlannedCell]) -> dict[str, int]:
    """Planned cells by what became of them; valid cells of other kinds are extras, by kind.

    `beside`: records of cells that are not in the plan, such as those of a wider one; they are counted in no other.
    """
    extra = ~frame["kind"].isin(["planned", "unknown"])
    asked = {cell[:2] for cell in cells}
    is_planned = pd.Series(
        [pair in asked for pair in zip(frame["state"], frame["cell"], strict=True)], frame.index, bool
    )
    numbers = {"planned": sum(kind == "planned" for *_, kind in cells), "beside": int((~extra & ~is_planned).sum())}
    numbers |= {status: int(((frame["status"] == status) & ~extra & is_planned).sum()) for status in STATUSES}
    numbers["missing"] = len([cell for cell in missing(frame, cells) if cell[2] == "planned"])
    return numbers


def extras(frame: pd.DataFrame) -> dict[str, int]:
    """Valid cells that are not planned ones, by kind."""
    valid = frame[(frame["status"] == "valid") & ~frame["kind"].isin(["planned", "unknown"])]
    return {str(kind): int(count) for kind, count in valid["kind"].value_counts(sort=False).items()}


def failures(frame: pd.DataFrame) -> list[str]:
    """A sentence on cells that failed and why; none where none did."""
    failed = frame[frame["status"].isin(["failed", "stopped"]) & (frame["kind"] == "planned")]
    if failed.empty:
        return []
    reasons = failed["why"].fillna("no reason is known").value_counts()
    shown = "; ".join(f"{why} ({count})" for why, count in reasons.head(REASONS).items())
    if len(reasons) > REASONS:
        more = f"; and {len(reasons) - REASONS} more reasons"
    else:
        more = ""
    if (failed["status"] == "stopped").any():
        what = "failed or stopped"
    else:
        what = "failed"
    return [f"{counted(len(failed), 'planned cell')} {what}: {shown}{more}."]


def missing(frame: pd.DataFrame, cells: list[PlannedCell]) -> list[PlannedCell]:
    """Cells of the plan, of any kind, without a record."""
    recorded = set(zip(frame["state"], frame["cell"], strict=True))
    return [cell for cell in cells if cell[:2] not in recorded]


def gaps(frame: pd.DataFrame, cells: list[PlannedCell]) -> list[dict[str, object]]:
    """What gave no number, by what became of it, state and reason."""
    columns = ["status", "state", "cell", "why"]
    rows = frame.loc[~frame["status"].isin(WITHOUT_GAP), columns].to_dict("records")
    rows += [
        {"status": "missing", "state": state, "cell": cell, "why": "not measured yet"}
        for state, cell, _ in missing(frame, cells)
    ]
    if not rows:
        return []
    table = pd.DataFrame(rows).groupby(["status", "state", "why"], sort=False, dropna=False)["cell"]
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
    rows = [
        {"state": row["state"], "cell": row["cell"], "phase": phase, "seconds": row[f"{phase}_seconds"]}
        for phase in ("write", "read")
        for row in samples(frame)[["state", "cell", f"{phase}_seconds"]].to_dict("records")
        if row[f"{phase}_seconds"] < SHORT_SAMPLE_S
    ]
    rows.sort(key=lambda row: (row["seconds"], row["state"], row["cell"]))
    return {"count": len(rows), "shown": rows[:SHOWN]}


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
    references = fragmented_references(frame)
    if not references:
        return []
    states = "; ".join(f"{state}: {why}" for state, why in list(references.items())[:FEW])
    states += f"; and {len(references) - FEW} more" if len(references) > FEW else ""
    return [
        "Warning: the reference itself is fragmented, so the loss may be underestimated. Nothing was deleted in these "
        f"states: {states}. `filler:`, `request_size:` and `files_at_once:` of a study say how its filler gets its "
        "blocks."
    ]
