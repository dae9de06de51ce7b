"""`launcher: srun`: the jobs that Snakemake submits have all the target's clients, and srun starts tasks on each."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster_project import ClusterProject, shared_directory
from project import MEASURE, kill_group, make_project
from testbed import Testbed, wait_for

from fsage.plan.plan import load_claim
from fsage.workloads import shared

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]
CLIENTS = ["n1", "n2", "n3"]
SMALL = {"states__capacity": [30], "states__fragmentation": [50], "cells__transfer_size": ["4M"], "headline": []}


@pytest.fixture
def by_srun(testbed: Testbed, tmp_path: Path) -> Iterator[ClusterProject]:
    """A project whose target is a directory of three clients, which launch by srun. Not claimed."""
    place = Path(tempfile.mkdtemp(prefix="fsage-test-", dir="/var/tmp"))
    made = make_project(tmp_path / "clone", {**shared_directory(place, tasks=2), "launcher": "srun"})
    shutil.copytree(made.root / "profiles/slurm", made.root / "slurm")
    hosts = {"launcher": ["n2"], "clients": CLIENTS, "servers": []}
    groups = {group: {"hosts": dict.fromkeys(names)} for group, names in hosts.items()}
    (made.root / "inventories/testbed/hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    project = ClusterProject(made.root, made.spec, {**made.env, "HOME": str(testbed.folder)}, testbed)
    project.write_study(**SMALL)
    yield project
    testbed.run("scancel", "--full", "--user=root")
    released = project.playbook("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent")
    assert released.returncode == 0, released.stdout + released.stderr
    shutil.rmtree(place)


@pytest.mark.long
def test_a_job_has_all_clients_and_srun_starts_a_step_on_each(by_srun: ClusterProject) -> None:
    bed = by_srun.testbed
    assert bed
    run = by_srun.start("snakemake", "--profile", "slurm", *MEASURE)
    try:
        measured_by(run, by_srun, bed)
    finally:
        if run.poll() is None:
            kill_group(run, signal.SIGTERM)


def measured_by(run: subprocess.Popen, by_srun: ClusterProject, bed: Testbed) -> None:
    """Look at the job of a run, and wait for its end."""
    log = by_srun.root / "started.log"
    wait_for(lambda: bed.jobs("running") or run.poll() is not None, 120, f"a job; see {log}")
    assert run.poll() is None, log.read_text()
    (job,) = bed.jobs("running")
    claim = load_claim(by_srun.root / "results/targets/testbed.json")
    assert claim
    step = [
        *shared.mpirun({**claim, "launcher_options": ["--mpi=none"]}),
        "sh",
        "-c",
        "echo $SLURM_JOB_ID $(hostname)",
    ]
    said = bed.run("ssh", "n2", shlex.join([f"SLURM_JOB_ID={job}", *step]))
    assert sorted(said.splitlines()) == sorted(f"{job} {name}" for name in CLIENTS for _ in range(claim["tasks"]))
    assert run.wait(timeout=240) == 0, log.read_text()
    assert [record["status"] for record in by_srun.records().values()] == ["valid"] * 2
