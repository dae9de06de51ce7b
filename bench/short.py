"""The benches that matter, short: their ratios beside those that were recorded last, and which got worse.

    short.py            prints; nothing fails: on a busy machine a ratio says little
    short.py --record   a few times over, and writes the medians and how far they spread to recorded.json

A ratio is of times in one run, so it means about the same on another machine. It got worse where it is above the
recorded median by more than three times the recorded spread (half of the distance between quartiles), and 5%.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import cell_check
import cell_cost
import dry_run
from target import loop_target

RECORDED = Path(__file__).with_name("recorded.json")
TIMES, CELLS, FEW, MANY = 5, 8, 100, 10_000
SPREADS, LEAST = 3, 0.05


def ratios() -> dict[str, float]:
    """By name; more is worse."""
    ours_s, theirs_s, _ = cell_cost.medians(1, CELLS)
    dry_s, bare_s = dry_run.least(1)
    few, many = (of_files(count) for count in (FEW, MANY))
    return {
        "a cell, to a shell loop": ours_s / theirs_s,
        "a dry run of Series 1, to a bare Snakefile": dry_s / bare_s,
        f"the check before a cell, {MANY} files to {FEW}": many["check_events_ms"] / few["check_events_ms"],
        **{f"{name} of {MANY} files, to bare calls": many[name] for name in ("populate", "fragment", "digest")},
    }


def of_files(count: int) -> dict[str, float]:
    """What cell_check says of a state of so many files."""
    with loop_target(1) as spec:
        return cell_check.of_target(spec, count)


def record() -> None:
    """Write what several runs gave."""
    runs = [ratios() for _ in range(TIMES)]
    found = {}
    for name in runs[0]:
        low, middle, high = statistics.quantiles([run[name] for run in runs], n=4)
        found[name] = {"median": round(middle, 3), "spread": round((high - low) / 2, 3)}
    RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    print(RECORDED.read_text())


def compare() -> None:
    """A line each."""
    before = json.loads(RECORDED.read_text())
    for name, now in ratios().items():
        was, spread = before[name]["median"], before[name]["spread"]
        worse = now > was + max(SPREADS * spread, LEAST * was)
        print(f"bench: {name}: {now:.2f}, recorded {was:.2f}{': WORSE' if worse else ''}", flush=True)


if __name__ == "__main__":
    record() if sys.argv[1:] == ["--record"] else compare()
