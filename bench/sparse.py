"""Sparse targets: whether their rates are those of a written image, and what a state of the study's size costs.

sparse.py rates [N [DELETED ...]]
                        the same cells on a sparse and on a written target of 16 GiB, N of each (40), in turns, on a
                        disk of known rate, 80% full, DELETED % of the files deleted (0 and 50): equivalent where the
                        exact interval of the ratio lies within 1%
sparse.py size [FS]     populate 22.6 TiB to 80% with files of 264 MiB (71,524 of them) and delete 40% of them, beside
                        the bare system calls; the check before each cell. Goals: 1.5 times, 3 ms
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from target import build, loop_target

from fsage.host.cells import measure
from fsage.host.system import files
from fsage.model.structure import Step
from fsage.statistics.intervals import ratio
from fsage.studies.paf.model import Fragment, Populate
from fsage.workloads import sequential

MIB = 1 << 20
AMOUNT_MIB, SIZE_GIB, PERCENT = 256, 16, 80
DISK = {"kind": "seek", "bytes_per_s": 150_000_000, "seek_s": 0.005}
FILE_BYTES = 264 * MIB
LARGE_GIB = 23142
EQUIVALENT = 0.01
AT_A_TIME = 4


def steps_of(percent: int, deleted: int, file_bytes: int) -> list[Step]:
    """A state of recipe paf."""
    steps: list[Step] = [Populate(1, percent, (file_bytes,), seed=1)]
    if deleted:
        steps.append(Fragment(1, deleted, seed=1))
    return steps


def rates(count: int = 40, *shares: int) -> None:
    """Each state; write and read."""
    with (
        loop_target(SIZE_GIB, AMOUNT_MIB, device_model=DISK) as written,
        loop_target(SIZE_GIB, AMOUNT_MIB, device_model=DISK, sparse=True) as sparse,
    ):
        for deleted in shares or (0, 50):
            steps = steps_of(PERCENT, deleted, FILE_BYTES // 8)
            taken: dict[str, dict[str, list[float]]] = {"written": {}, "sparse": {}}
            for spec in (written, sparse):
                build(spec, {"state": "bench"}, steps)
            with contextlib.suppress(KeyboardInterrupt):  # what was measured by then counts
                for first in range(0, count, AT_A_TIME):
                    turns = [("written", written), ("sparse", sparse)]
                    for name, spec in turns if first // AT_A_TIME % 2 else reversed(turns):
                        numbers = range(first, min(count, first + AT_A_TIME))
                        for direction, rate in measured(spec, f"{PERCENT}.{deleted}", steps, numbers):
                            taken[name].setdefault(direction, []).append(rate)
            for direction in ("write", "read"):
                told(f"{PERCENT}.{deleted:02d} {direction}", taken["sparse"][direction], taken["written"][direction])


def measured(spec: dict, name: str, steps: list[Step], numbers: range) -> Iterator[tuple[str, float]]:
    """Direction and MiB/s of cells, each with a number of its own."""
    claim = files.read_json(Path(spec["home"]) / spec["name"] / "claim.json")
    cells = []
    for number in numbers:
        params = {"workload": "sequential", "tool": "fio", "transfer_size": 16 * MIB, "iteration": number + 1}
        phases = sequential.commands(sequential.Params.model_validate(params), claim)
        about = {"name": f"c{number}", "kind": "planned", "order": number, "attempt": 1, "params": params}
        cells.append({**about, "phases": phases, "makes_bytes": AMOUNT_MIB * MIB})
    request = {"study": "bench", "state": name, "nominal": {}, "steps": steps, "reuse": "nested", "cells": cells}
    answer = measure.measure(spec, request, False)
    assert answer["measured"] == len(cells) and not answer["lost"], answer["msg"]
    outbox = Path(spec["home"]) / spec["name"] / "outbox"
    for path in [path for cell in cells for path in outbox.rglob(f"{name}*/{cell['name']}.1.json")]:
        seen = json.loads(path.read_text())
        assert seen["status"] == "done", seen["why"]
        for phase, direction in zip(seen["phases"], ("write", "read"), strict=True):
            job = json.loads(phase["stdout"][phase["stdout"].index("{\n") :])["jobs"][0]
            yield direction, job[direction]["bw_bytes"] / MIB


def told(what: str, sparse: list[float], written: list[float]) -> None:
    """A line: the ratio, its interval, and whether that shows equivalence."""
    of = ratio(sparse, written)
    assert of.interval and of.value
    low, high = of.interval.low, of.interval.high
    within = low > 1 - EQUIVALENT and high < 1 / (1 - EQUIVALENT)
    print(
        f"{what}: sparse over written {of.value:.4f} ({low:.4f} to {high:.4f}, {of.interval.level:.1%}, n = {of.n} and "
        f"{of.n_reference}): {'equivalent' if within else 'NOT SHOWN to be equivalent'} within {EQUIVALENT:.0%}",
        flush=True,
    )


def size(filesystem: str = "ext4") -> None:
    """Populate, fragment, and check."""
    from cell_check import by_hand, of_checks

    from fsage.host.targets.opening import open_target

    steps = steps_of(PERCENT, 40, FILE_BYTES)
    with loop_target(LARGE_GIB, 384, sparse=True, filesystem=filesystem) as spec:
        took = build(spec, {"state": "bench"}, steps)
        target = open_target(spec)
        of_checks(target)
        sizes = list(steps[0].sizes(target.capacity_bytes))
        bare = by_hand(target, sizes, steps[1].to_delete(len(sizes)), request_bytes=4 * MIB, at_once=16)
        for name, seconds in took.items():
            print(f"{filesystem}: {name} {len(sizes)} files {seconds:.1f} s of processor, {seconds / bare[name]:.2f}x")


if __name__ == "__main__":
    what, *words = sys.argv[1:] or ["rates"]
    rates(*map(int, words)) if what == "rates" else size(*words)
