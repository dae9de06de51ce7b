"""IOR's text output, versions 3.0.1, 3.2.1, 3.3.0, 4.0.0 and the 4.1 development line.

The columns of both tables differ between versions and are found by the tables' headers. `Finished` is the one sign of a
run that reached its end.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import mean

from fsage.base import MIB
from fsage.parse import TAG, BadOutput, Transfer, check_launched, launched

HEAD = re.compile(r"(IOR-\S+): MPI Coordinated")
# Says nothing about the numbers: a file of an earlier run was deleted before the clock started.
HARMLESS = re.compile(r"exists already and will be deleted")
# With -D a run ends before its amount is moved; bandwidth and the summary's amount are of what was moved.
HARMLESS_STONEWALLED = re.compile(
    HARMLESS.pattern
    + r"|WARNING: (Expected aggregate|Stat\(\) of aggregate|Using actual aggregate|[Mm]aybe caused by deadline)"
)
MOVED = re.compile(r"WARNING: Using actual aggregate bytes moved\s*= (\d+)")  # stands before the repetition's row
ROUNDING_MIB = 0.05
"""From 3.2.1 on the summary's amount is rounded to 0.1 MiB."""


@dataclass(frozen=True)
class IorRun:
    """One test of IOR. `write` and `read` have one `Transfer` per repetition, in order; empty if not done.

    `moved_bytes` is what the summary gives for the first repetition, and where IOR was given `-D` what each one's
    warning says. `tasks_on_first` are those on the first task's node; `nodes` is None where IOR does not say it
    (before 3.3).
    """

    version: str
    command: str
    tasks: int
    nodes: int | None
    tasks_on_first: int
    block_bytes: int
    transfer_bytes: int
    write: tuple[Transfer, ...]
    read: tuple[Transfer, ...]


def parse(stdout: str, stderr: str, rc: int | None) -> IorRun:
    """Values of one IOR run; `BadOutput` if it failed, warned, was cut short, or is not one test as text.

    Traps that it knows (all seen):

    - 3.3.0 ends with code 0 after an unknown option, having measured nothing;
    - the exit code counts errors modulo 256, so that wrong data may end with 0;
    - after `-T` the summary holds `-nan`;
    - another rank's warning may be spliced into a row, which is then missed.
    """
    lines = launched(stdout)
    stonewalled = any(re.match(r"stonewallingTime\s*:|Command line.* -D ", line) for line in lines)
    check_launched("IOR", lines, stderr, rc, HEAD, HARMLESS_STONEWALLED if stonewalled else HARMLESS)
    if any(line.startswith("IOR-2.") for line in lines):
        raise BadOutput("it is the output of IOR 2, whose table has other columns: run IOR 3.0.1 or a later one")
    if not any(re.match(r"Finished\s*:", line) for line in lines):
        raise BadOutput("IOR's output lacks its last line, Finished: IOR or its launcher was ended, or it is no text")
    try:
        return _values(lines)
    except (KeyError, ValueError) as error:
        why = f"no column {error}" if isinstance(error, KeyError) else f"{error}"
        raise BadOutput(
            f"IOR's output is not that of a known version, or its lines were wrapped or its numbers changed: {why}"
        ) from error


def row_of(stdout: str, kind: str) -> int:
    """Which line of the output (from 0) is the last row of `kind` in the table: IOR flushes it when all tasks ended.

    `BadOutput` if there is none.
    """
    columns = 0
    row = None
    for number, line in enumerate(stdout.splitlines()):
        words = TAG.sub("", line).split()
        if words[:1] == ["access"]:
            columns = len(words)
        elif words[:1] == [kind] and len(words) == columns:
            row = number
    if row is None:
        raise BadOutput(f"IOR's output has no row of {kind}")
    return row


def _values(lines: list[str]) -> IorRun:
    rows = _table(lines, "access")
    summary = _table(lines, "Operation")
    if not summary:
        raise BadOutput("IOR's summary has no whole row: nothing was measured, or its lines were wrapped or cut")
    first = summary[0]
    return IorRun(
        version=_after(lines, HEAD.pattern),
        command=_after(lines, r"Command line(?: used)?\s*: (.*)"),
        tasks=int(first["#Tasks"]),
        nodes=next((int(match[1]) for line in lines if (match := re.match(r"nodes\s*: (\d{1,18})$", line))), None),
        tasks_on_first=int(first["tPN"]),
        block_bytes=int(first["blksiz"]),
        transfer_bytes=int(first["xsize"]),
        write=_transfers("write", rows, summary),
        read=_transfers("read", rows, summary),
    )


def _after(lines: list[str], pattern: str) -> str:
    for line in lines:
        match = re.match(pattern, line)
        if match:
            return match[1]
    raise BadOutput(f"IOR's output has no line {pattern.split('(')[0] or 'IOR-<version>'!r}")


def _table(lines: list[str], first_column: str) -> list[dict[str, str]]:
    """Rows of writes and reads in the table whose header begins with `first_column`, as column → text.

    Under `moved`: the bytes of a row, where the lines before it say them.
    """
    header: list[str] = []
    rows = []
    moved: dict[str, str] = {}
    for line in lines:
        words = line.split()
        match = MOVED.match(line)
        if match:
            moved = {"moved": match[1]}
        elif words[:1] == [first_column]:
            header = words
        elif words and words[0] in ("write", "read") and len(words) == len(header):
            rows.append(dict(zip(header, words, strict=True)) | moved)
            moved = {}
    return rows


def _transfers(kind: str, rows: list[dict[str, str]], summary: list[dict[str, str]]) -> tuple[Transfer, ...]:
    """The repetitions of one kind, after checking that they are all there and agree with the summary.

    Rows have the bytes moved over the time from the first open to the last close, in MiB/s. Before 3.2, with -D and
    both -w and -r, the summary and `Max Write` have the bytes of the read over the time of the write
    (aggFileSizeForBW, ior.c). The rows are right then.
    """
    totals = [row for row in summary if row["Operation"] == kind]
    rows = [row for row in rows if row["access"] == kind]
    if not totals and not rows:
        return ()
    if len(totals) != 1:
        raise BadOutput(f"IOR's summary has {len(totals)} rows of {kind}: one test per run is read, no more")
    total = totals[0]
    repetitions = int(total["reps"])
    if len(rows) != repetitions or [int(row["iter"]) for row in rows] != list(range(len(rows))):
        raise BadOutput(f"IOR shows {len(rows)} of its {repetitions} repetitions of {kind}")
    bandwidths = [_positive(row["bw(MiB/s)"]) for row in rows]
    # The table rounds to whole MiB/s from 3600 on, else to 2 digits; the summary has 2 digits always.
    rounding = 0.51 if max(bandwidths) >= 3600 else 0.0101
    for statistic, column in ((max, "Max(MiB)"), (min, "Min(MiB)"), (mean, "Mean(MiB)")):
        shown = statistic(bandwidths)
        summed = _positive(total[column])
        if abs(shown - summed) > rounding:
            why = f"IOR's table gives {shown} MiB/s of {kind} where its summary gives {summed}"
            if "aggsize" in total and any("moved" in row for row in rows):
                why += "; with -D, IOR before 3.2 has the bytes of the read in the write's summary: the table is right"
            raise BadOutput(why)
    whole_bytes = int(total["#Tasks"]) * int(total["blksiz"]) * int(total["segcnt"])
    moved_bytes = [int(row.get("moved", whole_bytes)) for row in rows]
    if "aggsize" in total:
        summed_bytes = int(total["aggsize"])
        rounding_bytes = 0.0
    else:
        summed_bytes = round(_positive(total["aggs(MiB)"]) * MIB)
        rounding_bytes = ROUNDING_MIB * MIB + 1
    if abs(moved_bytes[0] - summed_bytes) > rounding_bytes:
        moved_bytes = [summed_bytes] * repetitions
    if repetitions == 1:  # the summary has the finer digits
        return (Transfer(moved_bytes[0], _positive(total["Mean(s)"]), _positive(total["Max(MiB)"])),)
    seconds = [_positive(row["total(s)"]) for row in rows]
    transfers = tuple(map(Transfer, moved_bytes, seconds, bandwidths))
    if any("moved" in row for row in rows):
        # A repetition's amount is that of its rate and time, as far as the time's digits tell.
        for row, moved in zip(rows, transfers, strict=True):
            half = 0.5 * 10.0 ** -len(row["total(s)"].partition(".")[2])
            mib = moved.moved_bytes / MIB
            least_s = max(moved.seconds - half, half)
            if not mib / (moved.seconds + half) * 0.999 <= moved.bw_mib_s <= mib / least_s * 1.001:
                raise BadOutput(
                    f"IOR's repetition {row['iter']} of {kind} moved {moved.moved_bytes} bytes in {moved.seconds} s at "
                    f"{moved.bw_mib_s} MiB/s: one of them is of another repetition"
                )
    return transfers


def _positive(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number <= 0:
        raise BadOutput(f"IOR gives {text} where a number above 0 must be")
    return number
