"""What `lfs df` prints: how full each OST of a Lustre is, in KiB, from 1.8 (`filesystem summary:`) to 2.17."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from fsage.model.evidence.store import OF_EXTENTS, NotThisText, Store, without

LINE = re.compile(r"(\S+?)(?:_UUID)?\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(\d+%|-)\s+\S+\[(OST|MDT):(\d{1,9})\].*")
SUMMARY = re.compile(r"filesystem[_ ]summary: +(\d{1,19}) +(\d{1,19}) ")
HEAD, KIB = "UUID ", "1K-blocks"
INACTIVE = re.compile(r"(\S+)\s*: inactive device")
"""An OST that was deactivated, as one is that was removed for ever; one that only does not answer has another word."""


class Ost(NamedTuple):
    """One OST; `available_bytes` is what clients may still write, without the reserve of ldiskfs."""

    name: str
    number: int
    total_bytes: int
    used_bytes: int
    available_bytes: int


def parse(lines: Iterable[str]) -> tuple[list[Ost], list[str]]:
    """The OSTs by number, and the names of those that are deactivated. Raises NotThisText."""
    osts, inactive, silent, summary = list[Ost](), list[str](), list[str](), None
    for line in map(str.rstrip, lines):
        if match := LINE.fullmatch(line):
            if match[6] == "OST":
                total, used, available = (int(match[number]) * 1024 for number in (2, 3, 4))
                if not 0 < total >= used:
                    raise NotThisText(f"`lfs df` has {used} bytes used of {total} on {match[1]}, which cannot be")
                osts.append(Ost(match[1], int(match[7]), total, used, available))
        elif match := SUMMARY.match(line):
            summary = int(match[1]) * 1024
        elif match := INACTIVE.match(line):
            inactive.append(match[1])
        elif line.startswith(HEAD) and KIB not in line:
            raise NotThisText("`lfs df` counts inodes (-i) or rounds (-h): run `lfs df` without them")
        elif line and not line.startswith(HEAD):
            silent.append(" ".join(line.split()))
    if silent:
        raise NotThisText(f"`lfs df` could not ask every target: {'; '.join(silent)}")
    if not osts or summary is None:
        raise NotThisText(f"`lfs df` named {len(osts)} OSTs and {'no' if summary is None else 'a'} summary: cut short")
    if abs(summary - sum(ost.total_bytes for ost in osts)) > 1024 * (len(osts) + 1):
        raise NotThisText(f"`lfs df` named {len(osts)} OSTs, and its summary has {summary} bytes: lines are missing")
    return sorted(osts, key=lambda ost: ost.number), inactive


def of_text(lines: Iterable[bytes]) -> Store:
    """The totals of all OSTs as one store; the fullest is named. Raises NotThisText."""
    words = [line.decode(errors="replace").rstrip() for line in lines]
    osts, inactive = parse(words)
    percents = {match[1]: match[5] for match in map(LINE.fullmatch, words) if match}
    total, used = sum(ost.total_bytes for ost in osts), sum(ost.used_bytes for ost in osts)
    fullest = max(osts, key=lambda ost: ost.used_bytes / ost.total_bytes)
    source = f"lfs df; it has {len(osts)} OSTs, the fullest is {fullest.name} ({percents[fullest.name]})"
    if inactive:
        source += f"; deactivated and left out: {', '.join(inactive)}"
    values = {
        "device_bytes": total,
        "block_bytes": 1024,
        "used_bytes": used,
        "free_bytes": total - used,
        "fullness_percent": 100 * used / total,
    }
    why = "lfs df tells totals only; `fsage evidence` of an OST's device, on its server, tells how free space lies"
    return Store("lustre", {"free": source}, values, without((*OF_EXTENTS, "groups", "files"), why))
