"""`launcher: srun`: the jobs that Snakemake submits have all the target's clients, and srun starts tasks on each."""

from __future__ import annotations

import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from cluster_project import ClusterProject, on_shared_directory
from project import MEASURE, kill_group
from testbed import Testbed

from fsage.plan import load_claim
from fsage.workloads import shared

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]
CLIENTS = ["n1", "n2", "n3"]


@pytest.mark.long
def test_a_job_has_all_clients_and_srun_starts_a_step_on_each(testbed: Testbed, tmp_path: Path) -> None:
    with on_shared_directory(testbed, tmp_path / "clone", launcher="srun") as project:
        run = project.start("snakemake", "--profile", "slurm", *MEASURE)
        try:
            measured_by(run, project, testbed)
        finally:
            if run.poll() is None:
                kill_group(run, signal.SIGTERM)


def measured_by(run: subprocess.Popen, project: ClusterProject, testbed: Testbed) -> None:
    """Look at the job of a run, and wait for its end."""
    project.wait_amid(run, lambda: testbed.jobs("running"))
    (job,) = testbed.jobs("running")
    claim = load_claim(project.root / "results/targets/testbed.json")
    assert claim
    launch = shared.mpirun({**claim, "launcher_options": ["--mpi=none"]})
    words = [f"SLURM_JOB_ID={job}", *launch, "sh", "-c", "echo $SLURM_JOB_ID $(hostname)"]
    said = testbed.run("ssh", "n2", shlex.join(words))
    assert sorted(said.splitlines()) == sorted(f"{job} {name}" for name in CLIENTS for _ in range(claim["tasks"]))
    assert run.wait(timeout=240) == 0, project.log()
    assert [record["status"] for record in project.records().values()] == ["valid"] * 2
