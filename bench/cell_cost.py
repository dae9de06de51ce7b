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

from target import build, loop_target

from fsage.host.cells import measure
from fsage.host.targets.opening import open_target
from fsage.studies.paf.model import Fragment, Populate
from fsage.workloads import sequential

CELLS = 35  # of one state of Series 1
STEPS = [Populate(1, 50, (8 << 20,), seed=1), Fragment(1, 30, seed=1)]
STATE = {"study": "bench", "state": "50.30", "reuse": "nested"}


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
        build(spec, STATE, STEPS)
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
            answer = measure.measure(spec, {**STATE, "steps": STEPS, "cells": cells}, False)
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
