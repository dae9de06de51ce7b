"""What tests of measuring ask of a target in state 30.00, and what was observed then."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from local_targets import claim_file

from fsage import workloads
from fsage.host.targets import lease
from fsage.model.structure import Step
from fsage.studies.paf.model import Populate

MIB = 1 << 20
STEPS = [Populate(1, percent=30, file_bytes=(8 * MIB,), seed=1, files_at_once=4)]


def asked(cells: list[dict], **more: object) -> dict:
    return {
        "study": "test",
        "state": "30.00",
        "nominal": {"recipe": "paf"},
        "steps": STEPS,
        "reuse": "nested",
        "cells": cells,
        **more,
    }


def cell(spec: dict, name: str, steps: Sequence[Step] = (), **params: object) -> dict:
    """A cell, of workload sequential unless another one is named, in a state of these steps."""
    full = {"iteration": 1, **params}
    if "workload" not in params:
        full = {"workload": "sequential", "tool": "fio", "transfer_size": 4 * MIB, **full}
    workload = workloads.load(str(full["workload"]))
    claim = json.loads(claim_file(spec).read_text())
    return {
        "name": name,
        "kind": "planned",
        "order": 1,
        "attempt": 1,
        "params": full,
        "phases": workload.commands(workload.Params.model_validate(full), claim, steps),
    }


def observed(spec: dict, name: str) -> tuple[dict, Path]:
    path = next((Path(spec["home"]) / spec["name"] / "outbox").rglob(f"{name}.1.json"))
    return json.loads(path.read_text()), path


def holder(**changes: object) -> dict:
    me = {
        "run": "r1",
        "host": socket.gethostname(),
        "machine": lease.machine(),
        "pid": os.getpid(),
        "pid_start": lease.start_of(os.getpid()),
        "command": "snakemake",
        "since": "now",
    }
    return {"holder": {**me, **changes}}
