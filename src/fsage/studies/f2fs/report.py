"""The report of studies of F2FS: requests and jumps of reading the same data in pieces, and after it was moved."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

import pandas as pd

from fsage.api.model import format_size, round_size
from fsage.api.report import Answer, Data, Section, View, counted, dataset, words
from fsage.studies.defrag.report import extents_words
from fsage.studies.iocontrol.recipe import AFTER, BEFORE
from fsage.studies.iocontrol.weighted import FRAGMENTED, PATTERNS

ALONE = "P6"
SHARED = "P4"
PLAIN = "none"
WHOLE = "P1"
COUNTS = ("reads", "requests", "jumps", "jump_bytes")
"""What is counted of a group: it must be the same where a cell is measured again on the same image."""
GROUPS = ("1", "2")
STAGES = {BEFORE: "in pieces of {}", AFTER: "was in pieces of {}, moved"}


class Cell(NamedTuple):
    """What was read, in which stage, and how."""

    piece_bytes: int
    stage: str
    pattern: str
    scheduler: str
    transfer_bytes: int


Counted = dict[Cell, dict[str, Any]]
"""The first valid row of each cell."""


def rows_of(frame: pd.DataFrame) -> pd.DataFrame:
    """The planned cells of workload file_requests, with what they are as columns `cell_of` and `scheduler`."""
    rows = frame[(frame["kind"] == "planned") & (frame["workload"] == "file_requests")]
    axes = dataset.unpacked(rows, "axis", "piece_bytes", "stage")
    cells = axes.join(dataset.unpacked(rows, "param", "pattern", "scheduler", "transfer_size"))
    return rows.assign(cell_of=[Cell(*cell) for cell in cells.itertuples(index=False)], scheduler=cells["scheduler"])


def _valid(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["status"] == "valid"]


def first_rows(rows: pd.DataFrame) -> Counted:
    """The first valid row of each cell."""
    found: Counted = {}
    for row in _valid(rows).sort_values("iteration").to_dict("records"):
        found.setdefault(row["cell_of"], row)
    return found


def answer(data: Data) -> Answer | None:
    """Requests of one read of the file in pieces, of a whole file, and of the file once it was moved."""
    rows = rows_of(data.frame)
    cells = first_rows(rows)
    alone = [cell for cell in cells if cell.pattern == ALONE and cell.stage == BEFORE]
    if not alone:
        return None
    cell = min(alone, key=lambda cell: (cell.transfer_bytes, cell.scheduler != PLAIN))
    return Answer(
        words.sentences(
            "f2fs/answer",
            before=cells[cell],
            whole=cells.get(cell._replace(pattern=WHOLE)),
            after=cells.get(cell._replace(stage=AFTER)),
            shared=cells.get(cell._replace(pattern=SHARED)),
            shared_after=cells.get(cell._replace(pattern=SHARED, stage=AFTER)),
            a_read=format_size(cell.transfer_bytes),
            pieces=format_size(cell.piece_bytes),
            extents_words=extents_words,
            again=counted.again(_valid(rows), ["cell_of"], [f"group{name}_{key}" for name in GROUPS for key in COUNTS]),
        )
    )


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 0.05 else f"{value:.1f}"


def table(data: Data) -> Section | None:
    """Each stage, pattern and group: requests a read, jumps, and the computed rate."""
    cells = first_rows(rows_of(data.frame))
    if not cells:
        return None
    heads = ["stage", "pattern", "a read", "group (weight)", "file", "extents", "requests a read"]
    by_line: dict[tuple[str, ...], list[str]] = {}
    for cell in sorted(cells, key=lambda cell: (-cell.piece_bytes, cell.stage == AFTER, cell[2:])):
        for line in _lines(cell, cells[cell]):
            by_line.setdefault(tuple(line), []).append(cell.scheduler)
    lines = [[*heads, "jumps a read", "mean jump", "share of requests", "MiB/s, computed", "scheduler"]]
    lines += [[*line, ", ".join(schedulers)] for line, schedulers in by_line.items()]
    most = median(row["most_request_kib"] for row in cells.values())
    text = (
        "Files are read past the cache by turns, as many reads a turn as the weight says, until the first file ends. "
        "Requests are those that the guest's disk has completed; a jump is a read that begins elsewhere than the one "
        f"before it ended. This disk takes at most {most:g} KiB in one request, so a whole read of 128 KiB is two. "
        "Nothing is timed: the rate is computed from requests and jumps over 16 MiB for the declared device. With two "
        "groups each turn begins with a jump. Schedulers with the same counts share a line."
    )
    return Section("What reading the files takes", text, [], table=lines)


def _lines(cell: Cell, row: dict[str, Any]) -> Iterator[list[str]]:
    whole = sum(row[f"group{name}_requests"] for name in PATTERNS[cell.pattern])
    for name, reader in PATTERNS[cell.pattern].items():
        of = {key: row[f"group{name}_{key}"] for key in (*COUNTS, "extents", "requests_a_read", "computed_bw_mib_s")}
        in_pieces = STAGES[cell.stage].format(format_size(cell.piece_bytes))
        yield [
            cell.stage,
            cell.pattern,
            format_size(cell.transfer_bytes),
            f"{name} ({reader.weight})",
            in_pieces if reader.file == FRAGMENTED else "whole",
            f"{int(of['extents']):,}",
            _number(of["requests_a_read"]),
            f"{of['jumps'] / of['reads']:.2g}",
            round_size(of["jump_bytes"] / of["jumps"]) if of["jumps"] else "none",
            f"{100 * of['requests'] / whole:.0f}%",
            f"{of['computed_bw_mib_s']:.1f}",
        ]


def not_counted(data: Data) -> Section | None:
    """What a kernel cannot do, and what failed, with the reason of each."""
    return counted.not_counted(rows_of(data.frame), "scheduler", "scheduler")


VIEW = View((table, not_counted), reference="the file as it was written", answer=answer)
