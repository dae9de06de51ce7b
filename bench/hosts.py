"""What a cell costs beyond its I/O commands on four SSH hosts: check, cold caches on all, start and end of the visit.

Each host runs a fio of its own under its agent, over the connection that is there (fsage.host.remote); nothing listens.
It is loaded (`prepare`) before all are told their jobs at once. How far apart they began is printed, with by how much
the hosts' clocks may disagree (half of the round trip). Only newer versions of fio tell when they began; for others it
is known to some 10 ms.

The hosts are namespaces of this machine (tests/testbed), so that four caches are dropped one after another by one
kernel; the target is a directory that they share. Goal: at most 1 s a cell.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import yaml

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path += [str(TESTS / "testbed"), str(TESTS / "behaviour"), str(TESTS / "cluster")]

from cluster_project import ClusterProject, shared_directory  # noqa: E402 - the tests' cluster
from project import make_project  # noqa: E402 - the same
from testbed import Testbed  # noqa: E402 - the same

from fsage.workloads.by_fio import read_fio  # noqa: E402 - after the tests' folders

CELLS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
PARTS = ("check", "drop", "run", "clean")
STUDY = {"states__capacity": [30], "states__fragmentation": [0], "cells__iterations": CELLS, "headline": []}


def main() -> None:
    """Measure one state's cells by one play; print seconds a cell."""
    with tempfile.TemporaryDirectory(prefix="fsage-bed-", dir="/tmp") as bed, Testbed(Path(bed) / "bed") as testbed:
        place = Path(tempfile.mkdtemp(prefix="fsage-bench-", dir="/var/tmp"))
        try:
            measure(testbed, place)
        finally:
            shutil.rmtree(place)


def measure(testbed: Testbed, place: Path) -> None:
    """Bring the target about, then measure."""
    made = make_project(place / "clone", shared_directory(place, tasks=1))
    made.write_study(cells__transfer_size=["4M"], **STUDY)
    hosts = {"launcher": [], "clients": testbed.hosts, "servers": []}
    groups = {group: {"hosts": dict.fromkeys(names)} for group, names in hosts.items()}
    (made.root / "inventories/testbed/hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    project = ClusterProject(made.root, made.spec, {**made.env, "HOME": str(testbed.folder)}, testbed)
    done(project, "local_target.yml", "claim.yml", "-e", "claim_copy=results/targets/testbed.json")
    asked = project.fsage("request", "small", "30.00@8M", "--cells")
    assert asked.returncode == 0, asked.stderr
    (project.root / "request.json").write_text(asked.stdout)
    done(project, "scrub.yml", "populate.yml", "-e", "fsage_request=request.json")
    began = time.monotonic()
    done(project, "measure.yml", "-e", "fsage_request=request.json")
    play_s = time.monotonic() - began
    with tarfile.open(json.loads(asked.stdout)["bundle"]) as bundle:
        cells = [json.load(bundle.extractfile(each)) for each in bundle if each.name != "INDEX.json"]
    assert len(cells) == CELLS and {cell["status"] for cell in cells} == {"done"}
    own = [cell["seconds"] for cell in cells]
    run_s, cells_s = (sum(each[name] for each in own) for name in ("run", "total"))
    print(f"{len(testbed.hosts)} hosts, {CELLS} cells, {run_s / CELLS:.2f} s of commands each; beyond these")
    print(f"{(cells_s - run_s) / CELLS:.2f} s a cell, {(play_s - run_s) / CELLS:.2f} s with the play's start and end.")
    print("Medians inside a cell:")
    for each, cell in zip(own, cells, strict=True):
        each["prepare"] = sum(phase["prepare_s"] for phase in cell["phases"])
        each["rest"] = each["total"] - sum(each[name] for name in (*PARTS, "prepare"))
    for name in (*PARTS, "prepare", "rest"):
        print(f"  {name:5} {statistics.median(each[name] for each in own):.3f} s")
    phases = [phase for cell in cells for phase in cell["phases"]]
    spreads = [read_fio(phase).start_spread_s for phase in phases]
    errors = [max(each["clock_error_s"] for each in phase["by_host"].values()) for phase in phases]
    for what, values in (("the first host's start to the last one's", spreads), ("clocks may disagree by", errors)):
        print(f"Of a phase, {what}: median {1000 * statistics.median(values):.1f} ms, most {1000 * max(values):.1f} ms")


def done(project: ClusterProject, *words: str) -> None:
    """Run playbooks."""
    ran = project.playbook(*words)
    if ran.returncode:
        raise SystemExit(ran.stdout + ran.stderr)


if __name__ == "__main__":
    main()
