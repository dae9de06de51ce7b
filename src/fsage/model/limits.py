"""Limits that a site sets in the inventory (`fsage_target.limits`): hosts keep to them, whatever a study asks."""

from __future__ import annotations

import difflib
import re
import time
from typing import TypedDict

from fsage.model.errors import Refusal

HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
DAY_S = 24 * 3600
FOR_FIO = "bandwidth_mib_s", "operations_s"


class Limits(TypedDict):
    """None: no limit. `hours`: local time of the launcher host, such as 22:00-06:00."""

    bandwidth_mib_s: float | None  # of all clients together
    operations_s: float | None  # of all clients together
    clients: int | None
    hours: str | None
    gib_a_day: float | None


def complete(given: object) -> Limits:
    """The limits with every key present. Raises Refusal."""
    known = list(Limits.__annotations__)
    if not isinstance(given, dict):
        raise Refusal(f"fsage_target.limits is {given!r:.100}: a block with keys of {', '.join(known)} is wanted")
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1, 0)
            raise Refusal(
                f"fsage_target.limits has no key {key!r}; did you mean {near[0]!r}? Known: {', '.join(known)}"
            )
        if value is None:
            continue
        if key == "hours":
            if not isinstance(value, str) or not HOURS.fullmatch(value) or value[:5] == value[6:]:
                raise Refusal(f"fsage_target.limits.hours is {value!r}: hours such as 22:00-06:00 are wanted")
        elif isinstance(value, bool) or not isinstance(value, int if key == "clients" else (int, float)) or value <= 0:
            raise Refusal(f"fsage_target.limits.{key} is {value!r}: a positive number is wanted")
    return {**dict.fromkeys(known), **given}  # type: ignore[typeddict-item]


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
