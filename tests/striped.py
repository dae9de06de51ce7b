"""Striped files in tests: the step that lays one out, a target whose stores are its OSTs, netflow's tasks at a file."""

from __future__ import annotations

import json

from local_targets import claimed

from fsage import recipes, workloads
from fsage.base import MIB
from fsage.model.structure import Segment, Step
from fsage.studies.striping.recipe import States

STORES = 4
CLAIM = {
    "kind": "loop",
    "target": "osts",
    "stores": [{"mount": f"/mnt/{number}"} for number in range(16)],
    "amount_mib": 64,
    "containers": None,
    "tools": {"fio": "3.33"},
}
"""A claimed target of 16 stores."""


def step(name: str, *others: str) -> Step:
    """The step `stripe` of a pattern, in a study that has others too."""
    states = States(pattern=[name, *others], default=name)
    (found,) = (each for each in recipes.load("striping").expand(states) if each.name == name)
    return found.steps(1, 0)[0]


def osts_of(spec: dict, **more: object) -> dict:
    """The declaration of a loop target with stores, created and claimed."""
    spec = {**spec, "stores": STORES, **more}
    claimed(spec)
    return spec


def netflow_task(place: str, segments: list[Segment], **more: object) -> dict:
    """A phase of workload netflow, as its tasks are told of it; its objects lie in that folder."""
    return {
        "seed": 5,
        "models": 64,
        "models_read": 9,
        "block_bytes": 65536,
        "transfer_bytes": MIB,
        "segment_bytes": MIB,
        "direct": False,
        "segments": segments,
        "paths": [f"{place}/object{number}" for number in range(segments[-1].first + segments[-1].stripes)],
        "index": place,
        **more,
    }


def netflow_phases(place: str, hosts: list[str], tasks_here: int, **more: object) -> list[dict]:
    """Phases of workload netflow for tasks on several hosts, at a file that is an object of that folder."""
    tasks = {"distribution": "asynchronous", "tasks": tasks_here * len(hosts), "tasks_here": tasks_here}
    task = netflow_task(place, [Segment(0, 16 * MIB, 1, 16 * MIB, 0)], **{**tasks, **more})
    argv = [
        "env",
        "PYTHONPATH={agent}",
        "{python}",
        "-S",
        "-m",
        "fsage.studies.netflow.host.phase",
        "{files}/task.json",
    ]
    jobs = {name: f"{number * tasks_here}\n" for number, name in enumerate(hosts)}
    return [
        {"name": name, "argv": argv, "files": {"task.json": json.dumps({**task, "phase": name})}, "jobs": jobs}
        | {"asks_next": True, "reads": name != "generate"}
        for name in workloads.load("netflow").PHASES
    ]
