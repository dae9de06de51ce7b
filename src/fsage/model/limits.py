"""Keeping to the limits of a site (`Limits`): what a target declares, and what root wrote on a host in FILE.

The stricter of both holds, so that nobody lifts by an inventory what the site's owner set.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from fsage.base import GIB, MIB, Json
from fsage.model.request import Phase
from fsage.model.target import Limits, declared, usual

FILE = Path("/etc/fsage/limits.json")
DAY_S = 24 * 3600
SHIFT = {"k": 10, "m": 20, "g": 30}
RESUMES = "the run ends when the limit is reached, and the same command resumes"
AND = " and "  # between hours that must all be open


def of_site(given: object) -> Limits:
    """The limits in FILE, complete. Raises Refusal."""
    return cast(Limits, {**usual(Limits), **declared(Limits, given, "limits")})


def stricter(*of_many: Limits) -> Limits:
    """The limits that keep to all of these; of hours each must be open.

    >>> site, inventory = {"clients": 2, "hours": "22:00-06:00"}, {"clients": 4, "hours": "20:00-04:00"}
    >>> both = stricter(of_site(site), of_site(inventory))
    >>> both["clients"], both["hours"], both["gib_a_day"]
    (2, '22:00-06:00 and 20:00-04:00', None)
    """
    strict: Json = {}
    for key in Limits.__annotations__:
        given = [cast(Json, limits)[key] for limits in of_many]
        values = [value for value in given if value is not None]
        strict[key] = min(values, default=None)
        if key == "hours" and values:
            strict[key] = AND.join(dict.fromkeys(AND.join(values).split(AND)))
    return cast(Limits, strict)


def closes_in_s(hours: str, now: float) -> float:
    """Seconds from `now` (since 1970) until these hours of the local day end; 0: they have not begun.

    >>> noon = time.mktime((2026, 11, 24, 12, 0, 0, 0, 0, -1))
    >>> [closes_in_s(hours, noon) / 3600 for hours in ("08:00-13:00", "22:00-06:00", "22:00-12:30")]
    [1.0, 0.0, 0.5]
    >>> closes_in_s("08:00-13:00 and 11:00-12:30", noon) / 3600
    0.5
    """
    local = time.localtime(now)
    second = local.tm_hour * 3600 + local.tm_min * 60 + local.tm_sec
    words = list(map(int, re.findall(r"\d\d", hours)))
    left_s = []
    for at in range(0, len(words), 4):
        start, end = (words[at + place] * 3600 + words[at + place + 1] * 60 for place in (0, 2))
        open_s = (end - start) % DAY_S
        since_s = (second - start) % DAY_S
        left_s.append(float(open_s - since_s) if since_s < open_s else 0.0)
    return min(left_s)


def longest_s(hours: str) -> float:
    """Seconds that these hours are open at a stretch, at most.

    >>> longest_s("22:00-06:00 and 20:00-04:00") / 3600
    6.0
    """
    midnight = time.mktime((*time.localtime()[:3], 0, 0, 0, 0, 0, -1))
    ends = re.findall(r"(\d\d):(\d\d)", hours)
    return max(closes_in_s(hours, midnight + int(hour) * 3600 + int(minute) * 60) for hour, minute in ends)


def why_too_many(limits: Limits, clients: int) -> str | None:
    """Why so many clients may not measure; None: they may."""
    most = limits["clients"]
    if most is None or clients <= most:
        return None
    return f"the inventory names {clients} clients, and limits.clients is {most}: name fewer in group clients"


def of_rate(limits: Limits | None) -> bool:
    """Whether there is a limit of bandwidth or operations."""
    return bool(limits and (limits["bandwidth_mib_s"] or limits["operations_s"]))


def why_not_kept(limits: Limits, phase: Phase) -> str | None:
    """Why a phase cannot be kept to the limits of bandwidth and operations; None where it can, or need not be."""
    if not of_rate(limits) or ("fio" in phase["argv"] and not phase.get("io_groups")):
        return None
    argv = phase["argv"]  # a launcher or a container may stand before the program
    tool = next((word for word in argv if word in ("ior", "mdtest")), Path(argv[0]).name)
    return (
        f"limits has bandwidth_mib_s or operations_s, and {tool} of phase {phase['name']} cannot be kept to it: only "
        "fio can (tool: fio, where the workload has that)"
    )


def kept_to(limits: Limits, phase: Phase, clients: int) -> Phase:
    """A phase of fio that keeps to its share of bandwidth and operations; any other as it is (`why_not_kept`)."""
    if not of_rate(limits):
        return phase
    argv = phase["argv"]
    jobs = phase.get("jobs", {})
    options = [*argv, *(f"--{line}" for job in jobs.values() for line in job.splitlines())]
    share = clients * int(_option(options, "numjobs", "1"))
    bytes_s = (limits["bandwidth_mib_s"] or math.inf) * MIB / share
    operations = (limits["operations_s"] or math.inf) / share
    if operations * _bytes(_option(options, "bs", "4k")) < bytes_s:  # fio takes one of the two
        word = f"rate_iops={max(1, int(operations))}"
    else:
        word = f"rate={max(1, int(bytes_s / 1024))}k"
    if jobs:
        return {**phase, "jobs": {host: f"{job}{word}\n" for host, job in jobs.items()}}
    first = argv.index("fio") + 1
    return {**phase, "argv": [*argv[:first], f"--{word}", *argv[first:]]}


def rest_s(limits: Limits, stdout: str, took_s: float, clients: int) -> float:
    """Seconds to rest after a command of fio (`stdout`: its JSON), so that it kept to the limits over all of its time.

    fio sends its first request at once and then waits, so a command of two requests moves twice what it may.
    """
    if not of_rate(limits):
        return 0.0
    try:
        jobs = json.JSONDecoder().raw_decode(stdout[max(stdout.find("{\n"), 0) :])[0]["jobs"]
        each = [job[direction] for job in jobs for direction in ("read", "write", "trim") if direction in job]
        moved_bytes = sum(way["io_bytes"] for way in each)
        operations = sum(way["total_ios"] for way in each)
    except (ValueError, KeyError, TypeError):
        return 0.0  # what reads fio's answer says so
    needs_s = max(
        clients * moved_bytes / MIB / (limits["bandwidth_mib_s"] or math.inf),
        clients * operations / (limits["operations_s"] or math.inf),
    )
    return max(0.0, needs_s - took_s)


def why_not_begun(limits: Limits, what: str, needs_s: float, now: float) -> str | None:
    """Why what takes so long is not begun, by the hours; None: it is. `now`: seconds since 1970."""
    hours = limits["hours"]
    if not hours or closes_in_s(hours, now) > needs_s:
        return None
    return (
        f"{what} takes about {needs_s:.0f} s, and limits.hours is {hours}. It would not end in these hours; the same "
        "command resumes in these hours"
    )


def why_too_much(limits: Limits, what: str, written_bytes: int) -> str | None:
    """Why what is written next is not, by the bytes of a day; None: it is. `written_bytes`: of the day, with it."""
    most_gib = limits["gib_a_day"]
    if most_gib is None or written_bytes <= most_gib * GIB:
        return None
    return (
        f"with {what}, {written_bytes / GIB:.2f} GiB would be written today, and limits.gib_a_day is {most_gib:g}; the "
        "same command resumes tomorrow"
    )


def why_never(limits: Limits, what: str, needs_s: float, written_bytes: int) -> str | None:
    """Why something can never be begun within the limits; None: it can."""
    hours = limits["hours"]
    most_gib = limits["gib_a_day"]
    if hours and (open_s := longest_s(hours)) <= needs_s:
        return f"{what} takes about {needs_s:.0f} s, and limits.hours, {hours}, is open for {open_s:.0f} s at a stretch"
    if most_gib is not None and written_bytes > most_gib * GIB:
        return f"{what} writes {written_bytes / GIB:.2f} GiB, and limits.gib_a_day is {most_gib:g}"
    return None


def forecast(limits: Limits, needs_s: float, written_bytes: int, now: float) -> list[str]:
    """What of a run will not fit, in sentences, before it begins at `now` (seconds since 1970)."""
    sentences = []
    hours = limits["hours"]
    most_gib = limits["gib_a_day"]
    if hours and (left_s := closes_in_s(hours, now)) <= needs_s:
        until = f"{left_s / 3600:.1f} hours are left of them" if left_s else "nothing begins before"
        sentences.append(f"it takes {needs_s / 3600:.1f} hours, and limits.hours is {hours}: {until}; {RESUMES}")
    if most_gib is not None and written_bytes > most_gib * GIB:
        days = math.ceil(written_bytes / (most_gib * GIB))
        sentences.append(
            f"it writes {written_bytes / GIB:.1f} GiB, and limits.gib_a_day is {most_gib:g}: {days} days; {RESUMES}"
        )
    return sentences


def _option(words: Sequence[str], name: str, usual: str) -> str:
    return next((word.partition("=")[2] for word in words if word.startswith(f"--{name}=")), usual)


def _bytes(text: str) -> int:
    """Bytes of a size in fio's words."""
    return int(text.rstrip("kKmMgGiB")) << SHIFT.get(text.lstrip("0123456789")[:1].lower(), 0)
