"""mdtest's text output: versions 1.9.3 (that of IOR 3.2.1), 3.3.0, 4.0.0 and the 4.1 development line.

`-- finished at` is the one sign of a run that reached its end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from fsage.parse import BadOutput, check_launched, launched

HEAD = r"^(mdtest-\S+) was launched with (\d+) total task\(s\) on (\d+) node"
# Of reads only, which are then no more than open and close; 4.x says it whether reads are requested or not.
HARMLESS = re.compile(r"WARNING: Read bytes is 0")


COMMAND = r"^Command line used: ((?:.+\n)+?)(?:Path|V-1|WARNING|\n)"  # it may have been wrapped
FASTEST = re.compile(r"mdtest-1\.")
OPTIONS_WITH_VALUE = "aAbdeEfiIlnNpRsVwWxz"  # what stands behind one of them is no option
DIGITS = 40  # no count has more


@dataclass(frozen=True)
class MdtestRun:
    """One run of mdtest. `files`: of all tasks; `per_s`: by operation as mdtest names it.

    Operations that were not done are left out. `tasks_on_first`: those on the first task's node, None where mdtest does
    not say it (before 3.3).
    """

    version: str
    command: str
    tasks: int
    nodes: int
    tasks_on_first: int | None
    files: int
    iterations: int
    per_s: Mapping[str, float]


def parse(stdout: str, stderr: str, rc: int | None) -> MdtestRun:
    """Values of one mdtest run; `BadOutput` if it failed, warned, was cut short, or measured nothing.

    Traps that it knows (all seen):

    - mdtest ends with code 0 though every stat failed, or over a tree that an earlier run left: with fast rates;
    - without `-n` it measures no file;
    - `-P` and `-Z` print times in a table of the same shape;
    - after `-W` its head still counts all requested files.
    """
    lines = launched(stdout)
    check_launched("mdtest", lines, stderr, rc, re.compile(HEAD), HARMLESS)
    text = "\n".join(lines)
    if not re.search(r"^-- finished at .* --$", text, re.M):
        raise BadOutput("mdtest's output lacks its last line, finished at: it was cut short")
    head = _find(text, HEAD, "mdtest-VERSION was launched with")
    version = head[1]
    tasks = _count(head[2])
    command_line = _find(text, COMMAND, "Command line used")
    command = " ".join(command_line[1].splitlines())
    files = _count(_find(text, r"^\d+ tasks, (\d+) (?:file|director)", "2 tasks, 10 files")[1])
    stonewall = re.search(r"^Continue stonewall hit min: \d+ max: (\d+)", text, re.M)
    if stonewall:  # then all tasks continue until they have as many as the fastest had
        files = tasks * _count(stonewall[1])
    own_clocks = _has(command, "u") and not _has(command, "t") and not _has(command, "B")
    if FASTEST.match(version) and own_clocks and tasks > 1:
        raise BadOutput(
            f"{version} with -u and {tasks} tasks prints the rate of the fastest task, which can be 3 times that of "
            "all: measure with the mdtest of IOR 3.3 or later"
        )
    iterations = _count(_find(text, r"^SUMMARY rate.*\(of (\d+) iterations\)", "SUMMARY rate: (of 1 iterations)")[1])
    per_s = _rates(text)
    if not per_s:
        raise BadOutput(
            "mdtest measured nothing: all its rates of files and directories are 0, or no row is whole (wrapped)"
        )
    nodemap = re.search(r"^Nodemap: ([01]+)$", text, re.M)
    on_first = nodemap[1].count("1") if nodemap else None
    return MdtestRun(version, command, tasks, _count(head[3]), on_first, files, iterations, per_s)


def _has(command: str, letter: str) -> bool:
    """Whether mdtest was given an option of one letter, alone or among others."""
    words = [word.strip("\"'") for word in command.split()[1:]]
    return any(re.match(f"-[^-{OPTIONS_WITH_VALUE}]*{letter}", word) for word in words)


def _count(text: str) -> int:
    if len(text) > DIGITS:
        raise BadOutput(f"mdtest gives a number of {len(text)} digits: this is no output of its own")
    return int(text)


def _find(text: str, pattern: str, like: str) -> re.Match[str]:
    match = re.search(pattern, text, re.M)
    if not match:
        raise BadOutput(f"mdtest's output has no line like {like!r}: it was cut, or is of another format or version")
    return match


def _rates(text: str) -> dict[str, float]:
    """Column `Min` of the rate table, without the operations that were not done.

    What the columns mean differs (summarize_results, mdtest.c):

    - 1.9.3 has the rate of the fastest task in all four, unless -B leaves the barriers out. With -u a task's clock
      starts when its own directory was looked up. So the fastest rate is that of the slowest look-up, up to 2.9 times
      too high (hpc/ior#183). The right one is not in the text, so that is refused. Without -u, or with -t, clocks start
      together.
    - 3.3.0 has max, min and mean over ranks and iterations, where a rank's rate is files x tasks / its own time.
    - 4.x has them over iterations, each of the slowest rank.

    With one iteration `Min` is in both of the latter all files of all tasks over the time of the slowest task.
    """
    count = len(re.findall(r"^SUMMARY rate", text, re.M))
    if count > 1:
        raise BadOutput(f"mdtest's output has {count} tables of rates: one run is read, no more")
    table, *_ = text[text.index("SUMMARY rate") :].split("\nSUMMARY", 1)
    _, header, *rows = [*table.splitlines(), ""]
    if header.split()[:4] != ["Operation", "Max", "Min", "Mean"]:
        raise BadOutput(f"mdtest's columns {' '.join(header.split())} are not Operation Max Min Mean")
    rates = {}
    for line in rows:
        row = re.match(r"\s*((?:File|Directory) \w+)\s*:?((?:\s+[^\s:]+){4})$", line)
        if not row:
            continue
        try:
            rate = float(row[2].split()[1])
        except ValueError as error:
            raise BadOutput(f"mdtest's rate of {row[1]} is not a number: {line.strip()}") from error
        if not math.isfinite(rate) or rate < 0:
            raise BadOutput(f"mdtest's rate of {row[1]} is {rate}")
        if row[1] in rates:  # of times, below a heading into which another rank wrote
            raise BadOutput(f"mdtest's output has two rows of {row[1]} in one table")
        if rate:
            rates[row[1]] = rate
    return rates
