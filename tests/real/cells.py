"""Cells of IOR and mdtest on a real loop target in a PaF state, measured by the agent and judged as jobs do it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from local_targets import claimed
from states import bring, fragment, populate

from fsage import workloads
from fsage.host.cells import measure
from fsage.records import make_record

MIB = 1 << 20
STEPS = [populate(30), fragment(50)]
SEQUENTIAL = {"workload": "sequential", "tool": "ior", "transfer_size": 4 * MIB, "iteration": 1}
METADATA = {"workload": "metadata", "tool": "mdtest", "files_per_task": 100, "iteration": 1}


class Bench:
    """A claimed target in state 30.50, and what was measured on it."""

    def __init__(self, spec: dict[str, Any], folder: Path) -> None:
        self.spec, self.folder = spec, folder
        self.target = claimed(spec)
        bring(spec, *STEPS)

    @property
    def claim(self) -> dict[str, Any]:
        return self.target.claim

    def cell(self, name: str, params: dict[str, Any], claim: dict[str, Any] | None = None, **changed: Any) -> dict:
        """A cell of the request, its commands made for this target's claim or another."""
        params = {**params, **changed}
        phases = workloads.load(params["workload"]).commands(
            workloads.load(params["workload"]).Params.model_validate(params), {**self.claim, **(claim or {})}
        )
        return {"name": name, "kind": "planned", "order": 1, "attempt": 1, "params": params, "phases": phases}

    def records(self, *cells: dict) -> dict[str, dict]:
        """Measure these cells; the record of each."""
        request = {"study": "test", "state": "30.50@8M", "nominal": {"recipe": "paf"}, "steps": STEPS}
        answer = measure.measure(self.spec, {**request, "reuse": "nested", "cells": list(cells)}, False)
        assert answer["measured"] == len(cells), answer
        return {cell["name"]: self.record(cell["name"]) for cell in cells}

    def record(self, cell: str) -> dict:
        (kept,) = (self.target.home / "outbox").rglob(f"{cell}.1.json")
        raw = self.folder / kept.name
        raw.write_bytes(kept.read_bytes())
        return make_record(json.loads(raw.read_text()), raw, self.folder)

    def measured(self, name: str) -> str:
        """The path of a file that cells make."""
        return str(self.target.mounts[0] / "measured" / name)


def between(cell: dict, after: str, *argv: str) -> dict:
    """The cell with a command after a phase."""
    at = [phase["name"] for phase in cell["phases"]].index(after) + 1
    meddled = {"name": "meddled", "argv": list(argv), "reads": False}
    return {**cell, "phases": [*cell["phases"][:at], meddled, *cell["phases"][at:]]}


def descendants() -> dict[int, str]:
    """The processes that this one started, directly or not, each with its program's name."""
    parents, names = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (entry / "stat").read_text().partition(" (")[2].rpartition(") ")
        except OSError:
            continue
        pid = int(entry.name)
        names[pid], parents[pid] = name, int(rest.split()[1])
    mine, grown = {os.getpid()}, -1
    while grown != len(mine):
        grown = len(mine)
        mine |= {pid for pid, parent in parents.items() if parent in mine}
    return {pid: names[pid] for pid in mine - {os.getpid()}}


def meanwhile(programs: tuple[str, ...], number: signal.Signals, run: Callable[[], Any]) -> Any:
    """Signal one of these programs a while after it was started by `run`; what that returns."""

    def wait_and_signal() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if found := [pid for pid, name in descendants().items() if name in programs]:
                time.sleep(0.3)
                os.kill(found[0], number)
                return
            time.sleep(0.02)

    thread = Thread(target=wait_and_signal)
    thread.start()
    try:
        return run()
    finally:
        thread.join()
