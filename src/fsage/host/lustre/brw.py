"""What the OSTs really did: `brw_stats`, histograms of reads and writes that an OST keeps since it was started."""

from __future__ import annotations

import re

from fsage.model.errors import Failure

HEADING = re.compile(r"(\S.*?)\s{2,}\S+\s+% cum % \|")
ROW = re.compile(r"(\d+[KMG]?):\s+(\d{1,19})\s+\d+\s+\d+\s+\|\s+(\d{1,19})\s+\d+\s+\d+")
Stats = dict[str, dict[str, list[int]]]  # histogram -> bucket as printed (from that on) -> [reads, writes]


def parse(text: str) -> Stats:
    """The histograms of one OST, counts only: the percentages follow from them. Raises Failure."""
    stats: Stats = {}
    rows: dict[str, list[int]] = {}
    for line in text.splitlines():
        if match := HEADING.match(line):
            rows = stats[match[1]] = {}
        elif match := ROW.match(line):
            rows[match[1]] = [int(match[2]), int(match[3])]
    if not stats:
        raise Failure(f"brw_stats begins {text[:60]!r}: no histogram in it")
    return stats


def between(before: Stats, after: Stats) -> Stats | None:
    """What was counted in between, empty buckets left out; None if the OST counts from zero since."""
    counted: Stats = {}
    for histogram, rows in after.items():
        counted[histogram] = {}
        for bucket, (reads, writes) in rows.items():
            first = before.get(histogram, {}).get(bucket, [0, 0])
            pair = [reads - first[0], writes - first[1]]
            if min(pair) < 0:
                return None
            if any(pair):
                counted[histogram][bucket] = pair
    return counted
