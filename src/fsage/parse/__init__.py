"""Text of a tool in, values out: parsers of what fio, IOR and mdtest print.

Each parser takes `stdout, stderr, rc` and returns a frozen dataclass whose names carry the units, or raises
`BadOutput` with a plain reason. A parser never returns a number for a run that failed or did not reach its end.
MiB is 2^20 bytes; conversion happens here and nowhere else.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

MIB = 2**20


class BadOutput(Exception):
    """What a tool left is not the output of a run that went right; the message says why."""


@dataclass(frozen=True)
class Transfer:
    """What one phase moved: bytes, seconds by the tool's own clock, and the bandwidth of both."""

    moved_bytes: int
    seconds: float
    bw_mib_s: float


def check_exit(tool: str, rc: int | None, said: str = "") -> None:
    """Raise `BadOutput` unless the return code is 0; `said` is what the tool itself gave as a reason."""
    if rc == 0:
        return
    if rc is None:
        how = "has no return code: it never ended"
    else:
        number = -rc if rc < 0 else rc - 128 if 128 < rc < 192 else 0
        try:
            killed = f" ({signal.Signals(number).name})" if number else ""
        except ValueError:
            killed = ""
        how = f"ended with code {rc}{killed}"
    raise BadOutput(f"{tool} {how}" + (f": {said}" if said else ""))
