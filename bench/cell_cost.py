"""What a cell costs beyond its own I/O commands and cache drops, against a shell loop that runs the same commands.

Both run the same fio commands with the same umount and mount before each, on the same state; the shell loop keeps
the output and does nothing else (no check, no evidence, no durable record). Goal: at most 0.1 s a cell.
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from target import loop_target

from fsage.host import states
from fsage.host.cells import measure
from fsage.host.targets.opening import open_target
from fsage.model import structure
from fsage.workloads import sequential

CELLS = 35  # of one state of Series 1
STEPS = [
    structure.read(
        {"kind": "populate", "generation": 1, "percent": 50, "file_bytes": [8 << 20], "seed": 1, "method": "fallocate"}
    ),
    structure.read({"kind": "fragment", "generation": 1, "percent": 30, "seed": 1}),
]


def request(cells: list[dict]) -> dict:
    """A request for the state with these cells."""
    return {"study": "bench", "state": "50.30", "steps": STEPS, "reuse": "nested", "cells": cells}


def main() -> None:
    """Print seconds a cell, both ways."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    ours_s, theirs_s, own_s = medians(rounds, CELLS)
    print(f"fsage {ours_s:.3f} s a cell, shell loop {theirs_s:.3f} s a cell (medians of {rounds} x {CELLS} cells)")
    print(f"beyond the same commands in a shell loop: {ours_s - theirs_s:+.3f} s a cell; ratio {ours_s / theirs_s:.3f}")
    print(f"inside a cell, beyond its commands and cache drops: {own_s:.3f} s (its own clock)")


def medians(rounds: int, count: int) -> tuple[float, float, float]:
    """Seconds a cell by fsage, by a shell loop, and inside a cell beyond its commands: `count` cells, a few times."""
    with loop_target(2) as spec:
        states.scrub(spec, request([]), False)
        for step in STEPS:
            states.begin(step.kind, spec, request([]), False)
            states.work(spec, request([]), step)
            states.end(spec, request([]), step)
        target = open_target(spec)
        phases = sequential.commands(
            sequential.Params.model_validate({"transfer_size": 1 << 20, "iteration": 1}), target.claim
        )
        ours, theirs, own = [], [], []
        for attempt in range(1, rounds + 1):
            cells = [
                {"name": f"c{i}", "kind": "planned", "order": i, "attempt": attempt, "params": {}, "phases": phases}
                for i in range(count)
            ]
            began = time.monotonic()
            answer = measure.measure(spec, request(cells), False)
            ours.append((time.monotonic() - began) / count)
            assert answer["measured"] == count, answer
            theirs.append(shell_loop(target, phases, count) / count)
            own.append(costs(target, attempt))
    return statistics.median(ours), statistics.median(theirs), statistics.median(own)


def shell_loop(target, phases: list[dict], count: int) -> float:
    """Seconds for the same commands by hand."""
    mount, device = target.mounts[0], target.devices[0]
    remount = f"umount {mount} && mount -o noatime {device} {mount}"
    with tempfile.TemporaryDirectory() as out:
        lines = [f"for i in $(seq {count}); do"]
        for phase in phases:
            lines.append(remount)
            lines.append(f"(cd {mount}/measured && {shlex.join(phase['argv'])}) > {out}/$i.{phase['name']} 2>&1")
        lines += [f"rm {mount}/measured/* && sync -f {mount}", "done"]
        script = Path(out) / "loop.sh"
        script.write_text("set -e\n" + "\n".join(lines))
        began = time.monotonic()
        subprocess.run(["bash", script], check=True)
        return time.monotonic() - began


def costs(target, attempt: int) -> float:
    """Median seconds of a cell that are neither its commands' nor its cache drops'."""
    found = [json.loads(path.read_text())["seconds"] for path in (target.home / "outbox").rglob(f"*.{attempt}.json")]
    return statistics.median(each["total"] - each["run"] - each["drop"] for each in found)


if __name__ == "__main__":
    main()
