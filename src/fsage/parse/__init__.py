"""Text of a tool in, values out: parsers of what fio, IOR and mdtest print.

Each parser takes `stdout, stderr, rc` and returns a frozen dataclass whose names carry the units, or raises
`BadOutput` with a plain reason. A parser never returns a number for a run that failed or did not reach its
end. MiB is 2^20 bytes; conversion happens here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MIB = 2**20
VERSION = {
    "fio": r'^ *"fio version" : "fio-([^"]+)"',
    "ior": r"^IOR-(\S+): MPI",
    "mdtest": r"^mdtest-(\S+) was launched",
    "blastn": r"^# BLASTN (\S+)",
}
"""Tool -> where it says its version in what it prints."""


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
    return version[1] if version else None


def check_end(tool: str, rc: int | None, errors: Iterable[str], stderr: str = "") -> None:
    """Raise `BadOutput` unless the return code is 0 and nothing was said that tells of trouble.

    `said`: the lines of the output that tell of trouble, for all three tools can go wrong with rc 0. `stderr`
    gives the reason of another rc where there are none.
    """
    lines = list(dict.fromkeys(line.strip() for line in errors if line.strip()))
    if rc != 0 and not lines:
        lines = [line for line in stderr.splitlines() if line.strip(" -")]
    reason = "; ".join(lines[:3]) + (f"; and {len(lines) - 3} lines more" if len(lines) > 3 else "")
    if rc is None:
        ended = "never ended"
    elif rc < 0:
        ended = f"was killed by signal {-rc}"
    else:
        ended = f"ended with code {rc}"
    if rc != 0:
        raise BadOutput(f"{tool} {ended}" + (f": {reason}" if reason else ""))
    if reason:
        raise BadOutput(f"{tool} {ended} but tells of trouble: {reason}")
