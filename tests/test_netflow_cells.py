"""Cells of workload netflow: on real stores, their commands on a site, what cannot be, what they take."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
from states import MIB, bring
from striped import CLAIM, osts_of, step

from fsage import workloads
from fsage.host.cells import measure
from fsage.host.targets.opening import open_target

NETFLOW = workloads.load("netflow")


def params_of(**more):
    return NETFLOW.Params.model_validate({"workload": "netflow", "iteration": 1, **more})


@pytest.mark.long
@pytest.mark.root
def test_cells_on_stores_find_what_was_generated_and_a_spoiled_one_fails_visibly(new_target):
    osts = osts_of(new_target, amount_mib=32)
    steps = [step("netflow.6")]
    bring(osts, *steps)
    target = open_target(osts)
    cells = []
    for order, distribution in enumerate(("synchronous", "asynchronous", "synchronous"), 1):
        params = {"workload": "netflow", "distribution": distribution, "models_read": 64, "iteration": 1}
        todo = NETFLOW.commands(params_of(**params), target.claim, steps)
        cell = {"kind": "planned", "order": order, "attempt": 1, "params": params, "phases": todo}
        cells.append({"name": f"cell{order}", **cell})
    object0 = f"{target.mounts[0]}/measured/object0"
    argv = ["dd", "if=/dev/zero", f"of={object0}", "bs=1", "seek=5000", "count=50", "conv=notrunc"]
    cells[2]["phases"].insert(1, {"name": "spoil", "argv": argv, "reads": False})
    request = {"study": "test", "state": "wanted", "steps": steps, "reuse": "nested"}
    assert measure.measure(osts, {**request, "cells": cells}, False)["measured"] == 3
    seen = [json.loads(path.read_text()) for path in sorted((target.home / "outbox").rglob("cell*.json"))]
    first, second, spoiled = map(NETFLOW.read, seen)
    assert (first.status, second.status, spoiled.status) == ("valid", "valid", "failed"), first.why or second.why
    for name in ("index_checksum", "models_checksum", "index_bytes", "models_bytes"):
        assert first.metrics[name] == second.metrics[name] > 0
    assert first.metrics["index_bytes"] == 32 * MIB and first.metrics["models_checksum"] < 2**48
    assert f"index: {object0}, byte 0 (byte 0 of the file): block 0 is corrupt, the CRC is" in spoiled.why
    assert [phase.get("cached_pages") for phase in seen[0]["phases"]] == [0, 0, 0]
    assert not [path for mount in target.mounts for path in (mount / "measured").iterdir()], "nothing stays"

    def told(number: int, **changes) -> str:
        other = copy.deepcopy(seen[0])
        phase = other["phases"][number]
        phase["stdout"] = json.dumps({**json.loads(phase["stdout"]), **changes})
        outcome = NETFLOW.read(other)
        assert outcome.status == "failed" and not outcome.metrics
        return outcome.why

    assert "models: checksum 1 is not " in told(2, checksum=1)
    assert "index: bytes 7 is not 33554432, as generated" in told(1, bytes=7)
    assert "index: tasks 3 is not 4, as requested" in told(1, tasks=3)
    assert "not all took part" in told(1, least_shares=0)
    assert "this is no result of netflow" in told(1, bytes="7")


LUSTRE = {
    **{**CLAIM, "kind": "lustre", "tasks": 8, "hosts": ["c1", "c2"], "stores": [{"mount": "/lustre/fsage"}]},
    "lustre": {"osts": list(range(16))},
}


def test_tasks_on_several_clients_share_the_work():
    todo = NETFLOW.commands(params_of(), LUSTRE, [step("netflow.6")])
    program = "env PYTHONPATH={agent} {python} -S -m fsage.studies.netflow.host.phase {files}/task.json"
    assert {" ".join(phase["argv"]) for phase in todo} == {program}
    assert all(phase["jobs"] == {"c1": "0\n", "c2": "8\n"} and phase["asks_next"] for phase in todo)
    task = json.loads(todo[1]["files"]["task.json"])
    assert (task["tasks"], task["tasks_here"]) == (16, 8)
    assert task["paths"] == [f"/lustre/fsage/measured/segment{number}/shared" for number in range(3)]
    cuts = [0, 186 * MIB, 372 * MIB, 1024 * MIB]  # 10 and 20 of 55 GB
    assert task["segments"] == [[cuts[n], cuts[n + 1], 1, cuts[n + 1] - cuts[n], n] for n in range(3)], (
        "a file is an object"
    )
    (generate, *_) = NETFLOW.commands(params_of(), LUSTRE, [replace(step("netflow.6"), realisation="pfl")])
    task = json.loads(generate["files"]["task.json"])
    assert (task["paths"], task["segments"]) == (["/lustre/fsage/measured/shared"], [[0, cuts[3], 1, cuts[3], 0]])
    assert not [phase for phase in NETFLOW.commands(params_of(nodes=1), LUSTRE, [step("netflow.6")]) if "jobs" in phase]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"block_size": 4097}, "block_size: 4097 bytes are no multiple of 4096, a page"),
        ({"transfer_size": 96 * 1024}, "transfer_size: 98304 bytes are no multiple of 65536, the block_size"),
        ({"segment_size": MIB * 3 // 2}, "segment_size: 1572864 bytes are no multiple of 1048576"),
        ({"block_size": 2 * MIB, "transfer_size": 2 * MIB}, "1048576 bytes are no multiple of 2097152, .* in a stripe"),
        ({"models": 100}, "models_read: 128 are more than the 100 models"),
        ({"models_read": 8}, "64 times 1048576 bytes of the file and 8 models are no work for 16 tasks"),
        ({"distribution": "asynchronous", "segment_size": 16 * MIB}, "4 times 16777216 bytes .* for 16 tasks"),
        ({"nodes": 2}, "nodes: 2 are more than target osts was claimed with"),
        (None, "needs a state with a layout"),
    ],
)
def test_what_no_cell_can_be_made_of_is_said(changes, why):
    steps = [step("netflow.1")] if changes else []
    with pytest.raises(ValueError, match=why):
        NETFLOW.commands(params_of(**(changes or {})), CLAIM, steps)


def test_the_estimate_of_a_cell_is_what_it_takes():
    target = {
        **CLAIM,
        "amount_mib": 320,
        "device_model": {"kind": "iocost", "random_iops": 100},
        "calibration": {"cell_overhead_s": 0.6, "read_mib_s": 15.26},
    }
    patterns = [f"netflow.{number}" for number in range(1, 7)]
    steps = [step(name, *(other for other in patterns if other != name)) for name in patterns]

    def estimate(of, **more):
        return NETFLOW.seconds(params_of(models_read=192, **more), target, [of])

    assert [round(estimate(each)) for each in steps] == [18, 10, 6, 8, 8, 7]
    target["calibration"]["backing_read_mib_s"] = 950.0
    target["capacity_bytes"] = 8 << 30
    with_file = replace(steps[0], eviction_file=2)
    more = estimate(with_file, read_eviction_file=True) - estimate(with_file, read_eviction_file=False)
    assert 0 < more < 1, "fsage reads that file itself, which the device model does not hold back"
    charged = estimate(steps[0])
    target["device_model"] = {"kind": "none"}
    assert estimate(steps[0]) < charged
