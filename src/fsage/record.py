"""From observations to records: unpack what a play fetched, judge it, hand it over to the DAG."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from pathlib import Path

from fsage import recipes, results, workloads
from fsage.plan import Plan
from fsage.results import Results
from fsage.study import Cell

SCHEMA = 1
BULKY = ("stdout", "stderr", "line_s")  # kept in the raw observation only


def make_record(observation: dict, raw: Path, root: Path) -> dict:
    """Judge one observation: its record, with the raw file's place below `root` and its SHA-256."""
    outcome = workloads.load(observation["params"]["workload"]).read(observation)
    phases = [_lean(phase) for phase in observation["phases"]]
    layout = observation["layout"]
    recipe = recipes.load(observation["nominal"]["recipe"])
    return {
        **observation,
        "schema": SCHEMA,
        "structure": recipe.built(layout["steps"], layout["capacity_bytes"]),
        "phases": phases,
        "status": outcome.status,
        "why": outcome.why,
        "metrics": outcome.metrics,
        "raw": {
            "path": str(raw.relative_to(root)),
            "sha256": hashlib.sha256(raw.read_bytes()).hexdigest(),
        },
    }


def _lean(phase: dict) -> dict:
    lean = {key: phase[key] for key in phase if key not in BULKY}
    if "beside" in phase:
        lean["beside"] = [_lean(one) for one in phase["beside"]]
    if "by_host" in phase:
        lean["by_host"] = {name: _lean(one) for name, one in phase["by_host"].items()}
    return lean


def unpack(bundle: Path, root: Path, target: str) -> int:
    """Put the observations of a fetched bundle into raw/ (write-once) and the store; how many were new.

    A bundle brings everything that waited on the host, also what a lost run of another study left.
    An observation that came before (same id) is not taken twice.
    """
    if not bundle.exists():
        return 0
    new = 0
    try:
        with tarfile.open(bundle) as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content:
                    new += keep(json.loads(content.read()), root, target)
    except (tarfile.ReadError, json.JSONDecodeError):
        pass  # fetching was cut short, so it was not acknowledged: the host still has all of it
    bundle.unlink()
    return new


def keep(observation: dict, root: Path, target: str) -> bool:
    """Put an observation into raw/ (write-once) and the store; False when it came before."""
    where = Results(root, target, observation["study"])
    state, cell = observation["state"], observation["cell"]
    attempt = observation["attempt"]
    while (raw := where.raw(state, cell, attempt)).exists():
        if results.read(raw)["id"] == observation["id"]:
            return False
        attempt += 1
    results.write(raw, {**observation, "attempt": attempt})
    stored = where.stored(state, cell)
    stored.parent.mkdir(parents=True, exist_ok=True)
    stored.unlink(missing_ok=True)
    os.link(raw, stored)
    return True


def hand_over(plan: Plan, state: str) -> list[Cell]:
    """Turn the store's observations of a state into records, once all its missing cells are there.

    Returns the cells that are still without: then nothing was handed over, for Snakemake deletes what a
    failed job declares; the store keeps what was measured for the next run.
    """
    waiting = plan.missing.get(state, ())
    lacking = [cell for cell in waiting if not plan.results.stored(state, cell.name).exists()]
    if lacking:
        return lacking
    for cell in waiting:
        stored = plan.results.stored(state, cell.name)
        observation = results.read(stored)
        raw = plan.results.raw(state, cell.name, observation["attempt"])
        results.write(plan.results.record(state, cell.name), make_record(observation, raw, plan.results.root))
    for cell in waiting:
        plan.results.stored(state, cell.name).unlink()
    return []


def forget_handed_over(plan: Plan, state: str) -> None:
    """Remove links in the store whose cell has its record (a run was killed between the two)."""
    for cell in plan.cells[state]:
        if plan.results.record(state, cell.name).exists():
            plan.results.stored(state, cell.name).unlink(missing_ok=True)
