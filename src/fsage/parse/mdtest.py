"""mdtest's text output, versions 3.3.0, 4.0.0 and the 4.1 development line.

Traps that this reader knows (all seen): mdtest ends with code 0 though every stat failed, or over a tree
that an earlier run left, with fast rates in both cases; without `-n` it measures no file; `-Z` prints times
in a table of the same shape. `-- finished at` is the one sign of a run that reached its end.

What the columns mean differs: 3.3.0 has max, min and mean over ranks and iterations, 4.x over iterations of
the slowest rank. With one iteration `Min` is in both: all files of all tasks over the time of the slowest
task (3.3.0 takes files x tasks / own time for each rank), so `Min` is what this reader gives.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fsage.parse import BadOutput, check_end
from fsage.parse.ior import TAG, TROUBLE

# Of reads only, which are then no more than open and close; 4.x says it whether reads are asked for or not.
HARMLESS = re.compile(r"WARNING: Read bytes is 0")


@dataclass(frozen=True)
class MdtestRun:
    """One run of mdtest. `files`: of all tasks; `per_s`: by operation as mdtest names it.

    Operations that were not done are left out.
    """

    version: str
    tasks: int
    files: int
    iterations: int
    per_s: Mapping[str, float]


def parse(stdout: str, stderr: str, rc: int | None) -> MdtestRun:
    """Values of one mdtest run; `BadOutput` if it failed, warned, was cut short, or measured nothing."""
    lines = [TAG.sub("", line) for line in stdout.splitlines()]
    check_end("mdtest", rc, [line for line in lines + stderr.splitlines() if _is_trouble(line)], stderr)
    text = "\n".join(lines)
    if not re.search(r"^-- finished at .* --$", text, re.M):
        raise BadOutput("mdtest's output lacks its last line, finished at: it was cut short")
    version, tasks = _find(text, r"^(mdtest-\S+) was launched with (\d+) total task")
    _, files = _find(text, r"^(\d+) tasks, (\d+) (?:file|director)")
    (iterations,) = _find(text, r"^SUMMARY rate.*\(of (\d+) iterations\)")
    per_s = _rates(text)
    if not per_s:
        raise BadOutput("mdtest measured nothing: all its rates of files and directories are 0")
    return MdtestRun(version, int(tasks), int(files), int(iterations), per_s)


def _is_trouble(line: str) -> bool:
    return bool(TROUBLE.search(line)) and not HARMLESS.search(line) and not line.startswith("Command line")


def _find(text: str, pattern: str) -> tuple[str, ...]:
    found = re.search(pattern, text, re.M)
    if not found:
        raise BadOutput(f"mdtest's output has no line like {pattern!r}: it is of another format or version")
    return found.groups()


def _rates(text: str) -> dict[str, float]:
    """Column `Min` of the rate table, without the operations that were not done."""
    _, header, *table = [*text[text.index("SUMMARY rate") :].splitlines(), ""]
    if header.split()[:4] != ["Operation", "Max", "Min", "Mean"]:
        raise BadOutput(f"mdtest's columns {' '.join(header.split())} are not Operation Max Min Mean")
    rates = {}
    for line in table:
        row = re.match(r"\s+((?:File|Directory) \w+)\s*:?((?:\s+\S+){4})$", line)
        if row:
            try:
                rate = float(row[2].split()[1])
            except ValueError as error:
                raise BadOutput(f"mdtest's rate of {row[1]} is not a number: {line.strip()}") from error
            if not math.isfinite(rate) or rate < 0:
                raise BadOutput(f"mdtest's rate of {row[1]} is {rate}")
            if rate:
                rates[row[1]] = rate
    return rates
