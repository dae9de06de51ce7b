"""What is on record of a cell, and the outbox that keeps it until it was fetched.

The record has what holds of a cell and of a phase when it begins, and whether a phase failed. In the outbox each
observation is on the launcher's disk as soon as it is taken.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import tarfile
import uuid
from pathlib import Path
from typing import cast

from fsage.base import Failure, Json
from fsage.host.remote.remote_hosts import inventory_of
from fsage.host.system import library, places
from fsage.host.system.files import read_json, write_json
from fsage.host.targets import Target
from fsage.host.targets.lease import held
from fsage.model import declaration, kinds
from fsage.model.claim import utc_now
from fsage.model.declaration import complete, home_of
from fsage.model.observation import Conditions, Observation, PhaseResult
from fsage.model.request import Cell, Phase, Request

LEAST_LIMIT_S = 900.0
TIMES_ESTIMATE = 10
"""The time limit of a phase: TIMES_ESTIMATE times the estimate of its whole cell, at least LEAST_LIMIT_S."""
QUOTA_REACHED = os.strerror(errno.EDQUOT)  # as fio, IOR and mdtest say it


def conditions(target: Target, request: Request) -> Conditions:
    """Under what all cells of a session are measured, but for what instruments say."""
    return {
        "device_model": target.model_in_place(),
        "filesystem": target.filesystem,
        "mount_options": target.mount_options(),
        "allocator_reset": target.allocator_reset,
        "disks": target.disks(),
        "tunables": {},
        "tools": target.claim["tools"],
        "images": target.claim.get("images", {}),
        "uid": target.uid,
        "amount_mib": request.get("amount_mib", target.claim["amount_mib"]),
        "amount_source": request.get("amount_source", target.claim["amount_source"]),
        "launch": declaration.launch_now(target.claim),
    }


def begun(target: Target, request: Request, cell: Cell) -> Observation:
    """The observation of a cell that begins now; `check`, `conditions`, `ended` and `layout` are still missing."""
    named = inventory_of(request)
    observation = {
        "schema": 1,
        "id": str(uuid.uuid4()),
        "study": request["study"],
        "target": target.name,
        "claim": target.claim["id"],
        "state": request["state"],
        "nominal": request.get("nominal", {}),
        "cell": cell["name"],
        **{key: cell[key] for key in ("kind", "attempt", "order", "params")},
        "run": request.get("run"),
        "began": utc_now(),
        "host": socket.gethostname(),
        "hosts": [host["name"] for host in named["clients"]],
        "servers": [host["name"] for host in named["servers"]],
        "watched": [host["name"] for host in named["watched"]],
        "kernel": platform.release(),
        "code": library.digest(),
        "status": "done",
        "why": None,
        "phases": [],
    }
    return cast(Observation, observation)


def begun_phase(target: Target, phase: Phase, dropped: Json) -> PhaseResult:
    """The result of a phase whose caches were dropped."""
    result: PhaseResult = {
        "name": phase["name"],
        "argv": phase["argv"],
        "cache_drop_s": dropped["seconds"],
        "wall_s": 0.0,
        "limit_s": phase["timeout_s"],
        "cached_pages": dropped["cached_pages"],
        "cache_drop": dropped["method"],
        "cached_names": dropped["cached_names"],
        "metadata": phase.get("metadata", dropped["metadata"]),
    }
    result.update(cast(PhaseResult, {key: phase[key] for key in ("files", "jobs", "leaves") if key in phase}))
    if dropped.get("mounting"):
        result["mounting"] = dropped["mounting"]
    if "mount_options" in phase:
        result["mount_options"] = target.mount_options()
    if dropped.get("hosts"):
        result["cache_drop_hosts"] = dropped["hosts"]
    return result


def limit_s(cell: Cell) -> float:
    """Seconds that a phase of a cell may take."""
    return max(LEAST_LIMIT_S, TIMES_ESTIMATE * cell.get("estimate_s", 0.0))


def refuse_failed(cell: Cell, result: PhaseResult) -> None:
    """Raise Failure where a phase reached its time limit, or one of its commands failed."""
    if result.get("timed_out"):
        raise Failure(
            f"it had not ended after {result['limit_s']:g} s, its limit. The whole cell was estimated to take "
            f"{cell.get('estimate_s', 0.0):.1f} s. A phase may take {TIMES_ESTIMATE} times that, at least "
            f"{LEAST_LIMIT_S:.0f} s"
        )
    for command in (result, *result.get("beside", ())):
        if command["rc"]:
            quota = "; a quota was reached (EDQUOT)" if QUOTA_REACHED in json.dumps(result) else ""
            failed = [f" on {name}" for name, answer in result.get("by_host", {}).items() if answer["rc"]]
            raise Failure(f"exit code {command['rc']}{''.join(failed[:1])}{quota}")


def place(target: Target, request: Request, cell: Cell) -> Path:
    """The file of one cell's observation under the target's present claim."""
    parts = (target.claim["id"], request["study"], request["state"])
    return target.home.joinpath("outbox", *parts, f"{cell['name']}.{cell['attempt']}.json")


def keep(path: Path, observation: Observation) -> None:
    """Store an observation durably."""
    write_json(path, observation)


def doubt(target: Target, request: Request, cells: list[Cell]) -> None:
    """Fail the cells that only a sample vouches for, once all files were examined and a change was found."""
    for cell in cells:
        path = place(target, request, cell)
        kept: Observation | None = read_json(path)
        if kept and kept["status"] == "done":
            kept["status"] = "failed"
            kept["why"] = (
                "files of the state were changed during this session. Only a sample of them was examined before this "
                "cell, so it may have been measured after the change"
            )
            keep(path, kept)


def bundle(spec: Json, request: Request, check: bool) -> Json:
    """Pack all waiting observations, also those of lost runs, into one file in the target's home.

    Guests' states may be visited at once, so each visit packs those of its own state.
    """
    declared = complete(spec)
    home = home_of(declared)
    box = home / "outbox"
    pattern = f"*/{_visited(request)}/*.json" if kinds.named(declared["kind"]).guests else "**/*.json"
    path = _bundle_of(home, request)
    with held(home, request, shared=True):
        waiting = sorted(box.glob(pattern))
        if not check:
            whole = places.file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with open(whole, "wb") as out, tarfile.open(fileobj=out, mode="w") as tar:
                for file in waiting:
                    tar.add(file, str(file.relative_to(box)))
    return {
        "changed": bool(waiting),
        "msg": f"{len(waiting)} observations wait",
        "bundle": str(path),
        "count": len(waiting),
    }


def _visited(request: Request) -> str:
    """The study and the state of a visit, as a path."""
    return f"{request.get('study', 'any')}/{request.get('state', 'any')}"


def _bundle_of(home: Path, request: Request) -> Path:
    return home / "bundles" / f"{_visited(request)}.tar"


def acknowledge(spec: Json, request: Request, check: bool) -> Json:
    """Delete the observations of the last bundle, which was fetched."""
    home = home_of(complete(spec))
    path = _bundle_of(home, request)
    with held(home, request, shared=True):
        if not path.exists() or check:
            return {"changed": False, "msg": "no bundle to acknowledge"}
        with tarfile.open(path) as tar:
            names = tar.getnames()
        for name in names:
            (home / "outbox" / name).unlink(missing_ok=True)
        path.unlink()
    return {"changed": bool(names), "msg": f"{len(names)} observations acknowledged"}
