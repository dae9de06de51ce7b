"""Keeping to the limits of a site (`fsage_target.limits`) on the launcher host: before a cell, and in its commands."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path

from fsage.host.system import files
from fsage.host.targets.target import Target
from fsage.model import GIB, MIB
from fsage.model.errors import Failure, Refusal
from fsage.model.request import Cell, Phase
from fsage.model.target import Limits

DAY_S = 24 * 3600
SHIFT = {"k": 10, "m": 20, "g": 30}
WRITTEN = "written.json"
"""The note in a target's home of the bytes that its cells wrote, by day."""


def check_clients(spec_limits: Limits, clients: int) -> None:
    """Raise Refusal where more clients are to measure than the site allows."""
    if (most := spec_limits["clients"]) is not None and clients > most:
        raise Refusal(
            f"the inventory names {clients} clients, and fsage_target.limits.clients is {most}: nothing was touched. "
            "Name fewer in group clients"
        )


def why_not_now(target: Target, cell: Cell) -> str | None:
    """Why a cell is not begun now, by the site's hours and bytes a day; None: it is. Its bytes count from now on."""
    allowed, needs_s = target.spec["limits"], cell.get("estimate_s", 0.0)
    if (hours := allowed["hours"]) and closes_in_s(hours, time.time()) <= needs_s:
        return (
            f"cell {cell['name']} takes about {needs_s:.0f} s, and fsage_target.limits.hours is {hours}. It would not "
            "end in these hours; the same command resumes in these hours"
        )
    if (most_gib := allowed["gib_a_day"]) is None:
        return None
    path, today = target.home / WRITTEN, time.strftime("%Y-%m-%d")
    written = (files.read_json(path) or {}).get(today, 0) + cell.get("makes_bytes", 0)
    if written > most_gib * GIB:
        return (
            f"with cell {cell['name']}, {written / GIB:.2f} GiB would be written today, and "
            f"fsage_target.limits.gib_a_day is {most_gib:g}; the same command resumes tomorrow"
        )
    files.write_json(path, {today: written})
    return None


def kept_to(allowed: Limits, argv: Sequence[str], phase: Phase, clients: int) -> list[str]:
    """A phase's command, kept to the site's bandwidth and operations: fio is told its share of them. Raises Failure."""
    bandwidth_mib_s, operations_s = allowed["bandwidth_mib_s"], allowed["operations_s"]
    if not (bandwidth_mib_s or operations_s):
        return list(argv)
    jobs = [int(word.partition("=")[2]) for word in argv if word.startswith("--numjobs=")]
    if len(jobs) != 1 or "fio" not in argv or phase.get("jobs") or phase.get("io_groups"):
        raise Failure(
            f"fsage_target.limits has bandwidth_mib_s or operations_s, and {Path(argv[0]).name} of phase "
            f"{phase['name']} cannot be kept to it: only fio on one client can"
        )
    share = clients * jobs[0]
    bytes_s, operations = (bandwidth_mib_s or math.inf) * MIB / share, (operations_s or math.inf) / share
    if operations * _request_bytes(argv) < bytes_s:  # fio takes one of the two
        words = [f"--rate_iops={max(1, int(operations))}"]
    else:
        words = [f"--rate={max(1, int(bytes_s / 1024))}k"]
    first = list(argv).index("fio") + 1
    return [*argv[:first], *words, *argv[first:]]


def _request_bytes(argv: Sequence[str]) -> int:
    """The bytes of a request (`--bs`) in fio's words; where they do not say, fio's own 4 KiB."""
    said = next((word.partition("=")[2] for word in argv if word.startswith("--bs=")), "4k")
    return int(said.rstrip("kKmMgGiB")) << SHIFT.get(said.lstrip("0123456789")[:1].lower(), 0)


def closes_in_s(hours: str, now: float) -> float:
    """Seconds from `now` (since 1970) until these hours of the local day end; 0: they have not begun.

    >>> noon = time.mktime((2026, 11, 24, 12, 0, 0, 0, 0, -1))
    >>> [closes_in_s(hours, noon) / 3600 for hours in ("08:00-13:00", "22:00-06:00", "22:00-12:30")]
    [1.0, 0.0, 0.5]
    """
    local = time.localtime(now)
    second = local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec
    words = [int(word) for word in re.findall(r"\d\d", hours)]
    start, end = words[0] * 3600 + words[1] * 60, words[2] * 3600 + words[3] * 60
    open_s = (end - start) % DAY_S
    since_s = (second - start) % DAY_S
    return float(open_s - since_s) if since_s < open_s else 0.0
