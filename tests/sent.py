"""What a host sends after it was asked for cells of a plan, made here: observations as the agent writes them."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

from fsage.plan import Plan
from fsage.run import request

STUDY: dict[str, Any] = {
    "name": "tiny",
    "title": "t",
    "question": "q",
    "states": {"recipe": "paf", "capacity": [30, 60], "fragmentation": [0, 50], "file_size": ["8M"]},
    "cells": {"workload": "sequential", "transfer_size": ["4M"], "iterations": 2, "tool": "fio"},
}
CLAIM: dict[str, Any] = {
    "id": "c1",
    "stores": [{"mount": "/m"}],
    "amount_mib": 64,
    "tasks": 1,
    "tools": {"fio": "3.33", "ior": None, "mdtest": None, "mpirun": None},
    "calibration": {"cell_overhead_s": 0.5, "write_mib_s": 64.0, "read_mib_s": 32.0},
}


def observation(plan: Plan, state: str, number: int, **changes: object) -> dict[str, Any]:
    """The observation of a cell that failed; the plan's target is asked for the state's cells first."""
    made = request.make(plan, state, plan.cells[state])
    cell = made["cells"][number]
    phase = {
        "name": "write",
        "argv": ["fio"],
        "rc": 1,
        "stdout": "",
        "stderr": "",
        "wall_s": 1.0,
        "cache_drop_s": 0.1,
    }
    return json.loads(json.dumps({
        "schema": 1,
        "target": plan.target.name,
        **{key: made[key] for key in ("study", "state", "nominal", "claim", "run")},
        **{key: cell[key] for key in ("kind", "order", "attempt", "params")},
        "id": f"{state}{number}",
        "cell": cell["name"],
        "began": "2026-11-22T05:00:00.000Z",
        "ended": "2026-11-22T05:00:03.000Z",
        "host": "n1",
        "hosts": ["n1"],
        "kernel": "6.18.0",
        "status": "failed",
        "why": "write: exit code 1",
        "check": {"agreed": True, "epoch": 7, "rebuilt": False, "seconds": 0.01, "instance": "i1"},
        "layout": {
            "digest": "d",
            "filler_files": 3,
            "filler_bytes": 3 << 20,
            "filler_extents": 4,
            "capacity_bytes": 1 << 30,
            "used_bytes": 3 << 20,
            "free_bytes": 1 << 29,
            "state_known": True,
            "generations": [],
            "steps": made["steps"],
            "notes": {},
        },
        "conditions": {
            "device_model": {"label": "no device model"},
            "filesystem": "ext4",
            "mount_options": ["rw"],
            "allocator_reset": "remount",
            "tunables": {},
            "tools": {"fio": "3.33"},
            "images": {"/images/fio.sif": "0" * 64},
            "amount_mib": 64,
        },
        "phases": [phase],
        "seconds": {"total": 1.2},
        **changes,
    }))  # fmt: skip


def bundle(plan: Plan, *observations: dict[str, Any] | bytes, names: tuple[str, ...] = ()) -> Path:
    """What a play fetched: a tar file of observations."""
    path = plan.results.bundle("any")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for number, each in enumerate(observations):
            content = each if isinstance(each, bytes) else json.dumps(each).encode()
            entry = tarfile.TarInfo(names[number] if names else f"c1/tiny/x/{number}.json")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path
