"""Keeping to the limits of a site (fsage.model.limits) on the launcher host: before a cell, and in its commands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from fsage.host.system import files
from fsage.host.targets.target import Target
from fsage.model import GIB, limits
from fsage.model.errors import Failure, Refusal
from fsage.model.request import Cell, Phase

WRITTEN = "written.json"
"""The note in a target's home of the bytes that its cells wrote, by day."""


def check_clients(spec_limits: limits.Limits, clients: int) -> None:
    """Raise Refusal where more clients are to measure than the site allows."""
    if (most := spec_limits["clients"]) is not None and clients > most:
        raise Refusal(
            f"the inventory names {clients} clients, and fsage_target.limits.clients is {most}: nothing was touched. "
            "Name fewer in group clients"
        )


def why_not_now(target: Target, cell: Cell) -> str | None:
    """Why a cell is not begun now, by the site's hours and bytes a day; None: it is. Its bytes count from now on."""
    allowed, needs_s = target.spec["limits"], cell.get("estimate_s", 0.0)
    if (hours := allowed["hours"]) and limits.closes_in_s(hours, time.time()) <= needs_s:
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


def kept_to(allowed: limits.Limits, argv: Sequence[str], phase: Phase, clients: int) -> list[str]:
    """A phase's command, kept to the site's bandwidth and operations: fio is told its share of them. Raises Failure."""
    if not any(allowed[key] for key in ("bandwidth_mib_s", "operations_s")):
        return list(argv)
    jobs = [int(word.partition("=")[2]) for word in argv if word.startswith("--numjobs=")]
    if len(jobs) != 1 or "fio" not in argv or phase.get("jobs") or phase.get("io_groups"):
        raise Failure(
            f"fsage_target.limits has bandwidth_mib_s or operations_s, and {Path(argv[0]).name} of phase "
            f"{phase['name']} cannot be kept to it: only fio on one client can"
        )
    share = clients * jobs[0]
    words = []
    if allowed["bandwidth_mib_s"]:
        words.append(f"--rate={max(1, int(allowed['bandwidth_mib_s'] * 1024 / share))}k")
    if allowed["operations_s"]:
        words.append(f"--rate_iops={max(1, int(allowed['operations_s'] / share))}")
    first = list(argv).index("fio") + 1
    return [*argv[:first], *words, *argv[first:]]
