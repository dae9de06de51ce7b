"""Text of a tool in, values out: parsers of what fio, IOR and mdtest print.

Each parser takes `stdout, stderr, rc` and returns a frozen dataclass whose names carry the units, or raises
`BadOutput` with a plain reason. A parser never returns a number for a run that failed or did not reach its
end. MiB is 2^20 bytes; conversion happens here and nowhere else.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from fsage.layouts.stream import tidied

VERSION = {
    "fio": r'^ *"fio version" : "fio-([^"]+)"',
    "ior": r"^IOR-(\S+): MPI",
    "mdtest": r"^mdtest-(\S+) was launched",
    "blastn": r"^# BLASTN (\S+)",
}
"""Tool -> where it says its version in what it prints."""


def tidy(output: str) -> str:
    """An output without what mail, editors and terminals add (fsage.layouts.stream), and blanks at line ends."""
    text = b"".join(tidied([output.encode(errors="surrogateescape")])).decode(errors="surrogateescape")
    return re.sub("[ \\t]+$", "", text, flags=re.MULTILINE)


class BadOutput(Exception):
    """What a tool left is not the output of a run that went right; the message says why."""


@dataclass(frozen=True)
class Transfer:
    """What one phase moved: bytes, seconds by the tool's own clock, and the bandwidth of both."""

    moved_bytes: int
    seconds: float
    bw_mib_s: float


def printed_version(tool: str, stdout: str) -> str | None:
    """The version that a tool of VERSION says of itself in its output; None if it does not."""
    version = re.search(VERSION[tool], stdout, re.MULTILINE)
    if version:
        return version[1]
    return None


NOT_FOUND = 127
"""The code of a shell for a program that is not there, and fsage's for a command that did not start or was given up."""


def check_end(tool: str, rc: int | None, errors: Iterable[str], stderr: str = "") -> None:
    """Raise `BadOutput` unless the return code is 0 and nothing was said that tells of trouble.

    `errors`: the lines of the output that tell of trouble, for all three tools can go wrong with rc 0. `stderr` gives
    the reason of another rc where there are none. Open MPI's mpirun that is terminated ends with code 1 and says
    nothing. MPICH's does so with code 0 at times, and at times loses what a task said that gave up (all seen).
    """
    lines = list(dict.fromkeys(line.strip() for line in errors if line.strip()))
    if rc != 0 and not lines:
        lines = [line for line in stderr.splitlines() if line.strip(" -")]
    reason = "; ".join(lines[:3]) + (f"; and {len(lines) - 3} lines more" if len(lines) > 3 else "")
    if rc is None:
        ended = "never ended"
    elif rc < 0:
        ended = f"was killed by signal {-rc}"
    elif rc == NOT_FOUND:
        ended = "did not run to its end"
    else:
        ended = f"ended with code {rc}"
    if rc != 0:
        raise BadOutput(f"{tool} {ended}" + (f": {reason}" if reason else ""))
    if reason:
        raise BadOutput(f"{tool} {ended} but tells of trouble: {reason}")


TAG = re.compile(r"^\[\d+,\d+\]<std(out|err)>: ?")  # mpirun --tag-output
TROUBLE = re.compile(
    r"WARNING|ERROR|FAILED|error could not|[Ii]nvalid (options|argument)|Unrecognized|signal \d|Sending Ctrl-C"
    r"|mpirun (was unable|has detected)"
)
"""What IOR, mdtest and what launches them say of trouble, whatever the return code."""
SILENT = (
    "without a word, as a launcher ends that was ended itself (a kill, a time limit, a lost login), "
    "and MPICH's at times when a task gave up"
)


def is_launched(argv: Sequence[str]) -> bool:
    """Whether MPI's launcher starts a command, so that this host's kernel does not know what it costs."""
    return bool(argv) and argv[0] in ("mpirun", "srun")


@functools.cache
def _known() -> re.Pattern[str]:
    """What of harmless.yaml is in a line."""
    table = yaml.safe_load(resources.files("fsage.parse").joinpath("harmless.yaml").read_text(encoding="utf-8"))
    return re.compile("|".join(f"(?:{entry['says']})" for entry in table))


def harmless(text: str) -> list[str]:
    """The lines of an output, each once, that are known to say nothing about the numbers (harmless.yaml)."""
    return list(dict.fromkeys(line.strip() for line in text.splitlines() if _known().search(line)))


def launched(stdout: str) -> list[str]:
    """The lines that the tasks printed which MPI's launcher started."""
    return [TAG.sub("", line) for line in tidy(stdout).splitlines()]


def check_launched(
    tool: str, lines: Sequence[str], stderr: str, rc: int | None, head: re.Pattern[str], harmless: re.Pattern[str]
) -> None:
    """Raise `BadOutput` where the tasks did not run together, and where `check_end` does.

    A launcher of one MPI starts programs built with another without a complaint, and each believes that it is alone:
    then there are several lines like `head`, with which a run of the tool begins. `harmless`: what is no trouble in
    a line, beside what harmless.yaml has.
    """
    count = sum(bool(head.match(line)) for line in lines)
    if count > 1:
        raise BadOutput(
            f"{count} processes of {tool} ran, and each believed that it was alone. The launcher does not belong to "
            f"the MPI that {tool} was built with. Declare the fsage_target.launcher of that MPI, or build {tool} with "
            f"the launcher's MPI. Or {count} outputs were put into one: then give one at a time"
        )
    said = stderr.splitlines()
    trouble = [line for line in (*lines, *said) if _tells_of_trouble(line) and not harmless.search(line)]
    reasons = [line for line in said if not line.startswith("Commencing ")]  # IOR 3.0.1's progress
    check_end(tool, rc, trouble, "\n".join(reasons) or SILENT)


def _tells_of_trouble(line: str) -> bool:
    return bool(TROUBLE.search(line)) and not line.startswith("Command line") and not _known().search(line)


def program_result(stdout: str, stderr: str, rc: int | None) -> Any:
    """What a program of a study's own printed (fsage.model.tools): one JSON value.

    `BadOutput` with the last line of stderr where it went wrong.
    """
    if rc != 0:
        raise BadOutput(stderr.strip().rpartition("\n")[2] or f"it ended with code {rc}")
    try:
        return json.loads(stdout)
    except ValueError as error:
        raise BadOutput(f"its output is not JSON: {error}") from error
