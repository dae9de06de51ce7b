"""Studies through a real Slurm: the same cells as on one machine, whatever happens to its jobs."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

import pytest
from cluster_project import ClusterProject
from project import MEASURE, Project, kill_group, succeeded
from testbed import wait_for

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(900)]

SLURM = ("snakemake", "--profile", "slurm", *MEASURE)
SMALLER = {"states__capacity": [30], "cells__transfer_size": ["4M"], "headline": []}  # 2 states, 4 cells


def started(project: ClusterProject, cells: int) -> tuple[subprocess.Popen, str]:
    """Start the study, and wait until `cells` were measured in all; the run, and its Slurm job."""
    run = project.start(*SLURM)
    project.wait_amid(run, lambda: len(project.observed()) >= cells)
    return run, list(project.testbed.jobs("running"))[-1]


def assert_each_cell_once(project: Project, count: int) -> None:
    """All cells are valid, taken in their states and in planned order, and none was measured twice."""
    records = project.whole(count)
    assert len(project.observed()) == count
    assert {record["host"] for record in records.values()} == {"n1"}
    states = [record["state"] for record in sorted(records.values(), key=lambda record: record["began"])]
    assert states == sorted(states)


def test_the_profile_as_typed_gives_the_cells_that_are_planned(cluster: ClusterProject) -> None:
    cluster.write_study(**SMALLER, states__fragmentation=[50])
    succeeded(cluster.run(*SLURM))
    assert_each_cell_once(cluster, 2)


@pytest.mark.long
def test_what_slurm_does_not_have_is_said_in_a_sentence(cluster: ClusterProject) -> None:
    """A partition before anything is changed, the rest when a job is submitted."""
    cluster.write_study(**SMALLER)
    wanted = [*SLURM[: -len(MEASURE)], "--default-resources", "runtime=5"]
    ran = cluster.run(*wanted, "mem_mb=100", "slurm_partition=nope", "--", "small")
    assert ran.returncode != 0 and "Traceback" not in ran.stderr
    assert "Slurm has no partition nope; it has batch: name one" in " ".join(ran.stderr.split())
    assert not list(cluster.home.rglob("*.json")) and not Path(cluster.spec["image_dir"]).exists()

    ran = cluster.run(*wanted, "mem_mb=900000", "slurm_partition=batch", "--", "small")
    assert ran.returncode != 0 and "Traceback" not in ran.stderr
    assert "fsage: visit_small_1: SLURM sbatch failed." in ran.stderr
    assert "Memory specification can not be satisfied" in ran.stderr
    assert not cluster.record_files()


@pytest.mark.long
def test_jobs_of_killed_runs_cannot_hurt(cluster: ClusterProject) -> None:
    """One that runs on is stopped by the next run, which measures the rest; one that waited comes too late."""
    slurm = cluster.testbed
    cluster.write_study(**{**SMALLER, "cells__iterations": 4})
    run, waiting = cluster.start(*SLURM), ""
    slurm.run("scontrol", "update", "partitionname=batch", "state=down")
    wait_for(lambda: slurm.jobs("pending"), 60, "a job that waits")
    [waiting] = slurm.jobs("pending")
    slurm.run("scontrol", "hold", waiting)
    kill_group(run)
    slurm.run("scontrol", "update", "partitionname=batch", "state=up")

    run, job = started(cluster, 5)  # amid the second state
    kill_group(run)
    assert slurm.state_of(job) == "RUNNING"
    assert len(cluster.taken()) == 4, "the first state's records were handed over"
    wait_for(lambda: len(cluster.observed()) >= 6, 60, "a job that runs on without its Snakemake")
    before = cluster.taken()
    succeeded(cluster.run(*SLURM))
    wait_for(lambda: slurm.state_of(job) in ("FAILED", "COMPLETED"), 60, "the job that is not needed any more to end")
    assert cluster.taken().items() >= before.items()
    assert_each_cell_once(cluster, 8)

    before = cluster.taken()
    slurm.run("scontrol", "release", waiting)
    wait_for(lambda: slurm.state_of(waiting) == "FAILED", 60, "the job of the first run to be refused")
    log = next((cluster.root / ".snakemake/slurm_logs").rglob(f"{waiting}.log")).read_text()
    assert "another took its place" in log
    assert cluster.taken() == before


@pytest.mark.long
def test_what_happens_to_a_job_costs_at_most_the_cell_that_it_was_at(cluster: ClusterProject) -> None:
    """Cancelled, out of time, its host lost, the controller restarted: the same command ends with the same cells."""
    slurm = cluster.testbed
    # Slurm looks at time limits every 30 s, in which some of these are measured, and shall not be all.
    cluster.write_study(**{**SMALLER, "cells__iterations": 160})

    run, job = started(cluster, 2)
    slurm.run("scancel", job)
    assert run.wait(timeout=120) != 0, "a cancelled job is no success"
    assert slurm.state_of(job) == "CANCELLED"
    assert f"fsage: visit_small_1: SLURM-job '{job}' failed" in cluster.log()
    assert_free_and_whole(cluster, 2)

    run, job = started(cluster, len(cluster.observed()) + 1)
    slurm.run("scontrol", "update", f"jobid={job}", "timelimit=0:01")
    assert run.wait(timeout=180) != 0
    assert slurm.state_of(job) == "TIMEOUT"
    assert_free_and_whole(cluster, 3)

    run, job = started(cluster, len(cluster.observed()) + 1)
    lost = slurm.jobs("running")[job]
    assert lost != "n1"
    slurm.power_off(lost)
    assert run.wait(timeout=180) != 0
    assert slurm.state_of(job) == "NODE_FAIL", "it is not started again by Slurm"
    assert_free_and_whole(cluster, 4)
    slurm.power_on(lost)

    run, job = started(cluster, len(cluster.observed()) + 1)
    slurm.restart_slurmctld()
    assert run.wait(timeout=400) == 0, cluster.log()
    assert list(slurm.jobs("completed")) == [job]
    assert_each_cell_once(cluster, 320)


def assert_free_and_whole(project: ClusterProject, count: int) -> None:
    """After a run that failed: nobody holds the target, nothing works on it, and `count` cells at least are kept."""
    said = project.log()
    assert "Traceback" not in said, said
    assert not (project.home / "lease.json").exists()
    with open(project.home / "lock") as lock:
        wait_for(lambda: free(lock.fileno()), 10, "the command on n1 to end")
    assert len(project.observed()) >= count


def free(fd: int) -> bool:
    """Whether no command holds a target's lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
