"""How full a Lustre file system is, OST by OST, by `lfs df`."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import NamedTuple

from fsage.agent.errors import Failure
from fsage.agent.shell import run

LINE = re.compile(
    r"(\S+?)(?:_UUID)?\s+(\d{1,19})\s+(\d{1,19})\s+(\d{1,19})\s+(?:\d+%|-)\s+\S+\[(OST|MDT):(\d{1,9})\].*"
)
SUMMARY = "filesystem_summary:"
# A client believes for a second what it was last told (llite.*.statfs_max_age), so two looks closer than that are one.
LOOK_EVERY_S = 1.1
FREES_PATIENCE_S = 300.0


class Ost(NamedTuple):
    """One OST; `available_bytes` is what clients may still write, which leaves out the reserve of ldiskfs."""

    name: str
    number: int
    total_bytes: int
    used_bytes: int
    available_bytes: int


def parse(text: str) -> list[Ost]:
    """The OSTs in what `lfs df` prints, by number. `Failure` if one does not answer, or it is not its whole text."""
    osts, silent = [], []
    for line in text.splitlines():
        if match := LINE.fullmatch(line):
            if match[5] == "OST":
                total, used, available = (int(match[number]) * 1024 for number in (2, 3, 4))
                osts.append(Ost(match[1], int(match[6]), total, used, available))
        elif line.strip() and not line.startswith(("UUID", SUMMARY)):
            silent.append(" ".join(line.split()))
    if silent:
        raise Failure(f"`lfs df` could not ask every target: {'; '.join(silent)}")
    if not osts or SUMMARY not in text:
        raise Failure(f"`lfs df` named {len(osts)} OSTs and {'a' if SUMMARY in text else 'no'} summary: cut short")
    return sorted(osts, key=lambda ost: ost.number)


def osts(mount: Path) -> list[Ost]:
    """The OSTs of the file system mounted at `mount`. Raises Failure."""
    return parse(run(["lfs", "df", str(mount)]).stdout)


def fullness(found: list[Ost]) -> dict[str, dict[str, float]]:
    """Bytes and fullness by OST, for an observation; full is what clients cannot write any more."""
    return {
        ost.name: {
            "total_bytes": ost.total_bytes,
            "used_bytes": ost.used_bytes,
            "available_bytes": ost.available_bytes,
            "fullness_percent": 100 * (1 - ost.available_bytes / ost.total_bytes),
        }
        for ost in found
    }


def await_frees(mount: Path) -> list[Ost]:
    """Wait until no OST frees anything any more: objects of deleted files are destroyed later, one by one.

    Returns what `lfs df` then says. `Failure` after FREES_PATIENCE_S.
    """
    deadline = time.monotonic() + FREES_PATIENCE_S
    before = osts(mount)
    while True:
        time.sleep(LOOK_EVERY_S)
        now = osts(mount)
        if [ost.used_bytes for ost in now] == [ost.used_bytes for ost in before]:
            return now
        if time.monotonic() > deadline:
            moving = [ost.name for ost, last in zip(now, before) if ost.used_bytes != last.used_bytes]  # noqa: B905 (3.9)
            raise Failure(
                f"{mount}: {FREES_PATIENCE_S:.0f} s on, {', '.join(moving)} still change: does somebody write?"
            )
        before = now
