"""Studies by IOR and mdtest on three hosts: Open MPI over SSH, and srun in the jobs that Snakemake submits.

Not MPICH: the one of Debian takes hosts that share a kernel for one machine, and hangs at its end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import testbed as testbeds
from beds import bed
from builds import Build
from cluster_project import SMALL, ClusterProject, on_shared_directory
from project import MEASURE, succeeded

pytestmark = [
    pytest.mark.root,
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.mpi("openmpi"),
    pytest.mark.timeout(1800),
]
HOSTS = ["n1", "n2", "n3"]
SEQUENTIAL = {"cells__tool": "ior", "cells__transfer_size": ["1M"], "cells__iterations": 2}
METADATA = {"workload": "metadata", "tool": "mdtest", "files_per_task": 50, "iterations": 2}
TCP = ["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]
Make = Callable[..., ClusterProject]


@pytest.fixture(scope="module")
def testbed() -> Iterator[testbeds.Testbed]:
    """Three hosts with sshd and Slurm."""
    with bed(hosts=3) as made:
        yield made


@pytest.fixture
def make(testbed: testbeds.Testbed, build: Build, tmp_path: Path) -> Iterator[Make]:
    """Make a project on all hosts, where this build is in /usr/local/bin, with other settings of its target."""
    with tempfile.TemporaryDirectory(prefix="fsage-test-", dir="/var/tmp") as folder, ExitStack() as made:
        programs = build.programs(Path(folder, "bin"))
        for host in HOSTS:
            testbed.run("ssh", host, f"mount --bind {programs} /usr/local/bin")
        yield lambda **changed: made.enter_context(on_shared_directory(testbed, tmp_path / "clone", **changed))
        made.close()
        for host in HOSTS:
            testbed.run("ssh", host, "umount /usr/local/bin")


def whys(project: ClusterProject) -> list[str | None]:
    return [record["why"] for record in project.records().values()]


def test_open_mpi_over_ssh(build: Build, make: Make) -> None:
    project = make(launcher="openmpi", launcher_options=TCP)
    project.write_study(**{**SMALL, **SEQUENTIAL})
    succeeded(project.run("snakemake", *MEASURE, timeout=600))
    assert whys(project) == [None] * 2
    for record in project.records().values():
        assert record["metrics"]["write_bytes"] == record["metrics"]["read_bytes"] == 3 * 2 * 8 << 20
        assert "n2:2,n1:2,n3:2" in record["phases"][0]["argv"]
    if "mdtest" in build.tools:
        shutil.rmtree(project.root / "results/records")
        project.write_study(**SMALL, cells=METADATA)
        succeeded(project.run("snakemake", *MEASURE, timeout=600))
        assert whys(project) == [None] * 2
        assert {record["metrics"]["stat_files"] for record in project.records().values()} == {300}


def test_srun_in_a_job_that_snakemake_submits(make: Make) -> None:
    project = make(launcher="srun", launcher_options=["--mpi=pmix"])
    project.write_study(**{**SMALL, **SEQUENTIAL})
    succeeded(project.run("snakemake", "--profile", "slurm", *MEASURE, timeout=600))
    assert whys(project) == [None] * 2
    assert {record["phases"][0]["argv"][0] for record in project.records().values()} == {"srun"}
