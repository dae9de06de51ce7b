"""Studies by IOR and mdtest on three hosts: Open MPI over SSH, and srun in the jobs that Snakemake submits.

Not MPICH: the one of Debian takes hosts that share a kernel for one machine, and hangs at its end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import testbed as testbeds
import yaml
from builds import Build
from cluster_project import ClusterProject, shared_directory
from project import MEASURE, make_project

pytestmark = [
    pytest.mark.root,
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.mpi("openmpi"),
    pytest.mark.timeout(1800),
]
HOSTS = ["n1", "n2", "n3"]
SMALL = {"states__capacity": [30], "states__fragmentation": [50], "headline": []}
SEQUENTIAL = {"cells__tool": "ior", "cells__transfer_size": ["1M"], "cells__iterations": 2}
METADATA = {"workload": "metadata", "tool": "mdtest", "files_per_task": 50, "iterations": 2}
TCP = ["--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]
Make = Callable[..., ClusterProject]


@pytest.fixture(scope="module")
def testbed() -> Iterator[testbeds.Testbed]:
    """Three hosts with sshd and Slurm."""
    if lacking := testbeds.missing():
        pytest.skip(f"a testbed needs {', '.join(lacking)}")
    place = tempfile.TemporaryDirectory(prefix="fsage-bed-", dir="/tmp")
    with place as folder, testbeds.Testbed(Path(folder), hosts=3) as made:
        yield made


@pytest.fixture
def make(testbed: testbeds.Testbed, build: Build, tmp_path: Path) -> Iterator[Make]:
    """Make a project on all hosts, where this build is in /usr/local/bin, with other settings of its target."""
    place = Path(tempfile.mkdtemp(prefix="fsage-test-", dir="/var/tmp"))
    programs, projects = build.programs(place / "bin"), []
    for host in HOSTS:
        testbed.run("ssh", host, f"mount --bind {programs} /usr/local/bin")

    def made(**changed: object) -> ClusterProject:
        spec = {**shared_directory(place, tasks=2), **changed}
        project = make_project(tmp_path / "clone", spec)
        shutil.copytree(project.root / "profiles/slurm", project.root / "slurm")
        groups = {"launcher": ["n2"], "clients": HOSTS, "servers": []}
        hosts = {"all": {"children": {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items()}}}
        (project.root / "inventories/testbed/hosts.yml").write_text(yaml.safe_dump(hosts))
        env = {**project.env, "HOME": str(testbed.folder)}
        projects.append(ClusterProject(project.root, project.spec, env, testbed))
        return projects[-1]

    yield made
    testbed.run("scancel", "--full", "--user=root")
    for project in projects:
        released = project.playbook("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent")
        assert released.returncode == 0, released.stdout + released.stderr
    for host in HOSTS:
        testbed.run("ssh", host, "umount /usr/local/bin")
    shutil.rmtree(place)


def whys(project: ClusterProject) -> list[str | None]:
    return [record["why"] for record in project.records().values()]


def test_open_mpi_over_ssh(build: Build, make: Make) -> None:
    project = make(launcher="openmpi", launcher_options=TCP)
    project.write_study(**SMALL, **SEQUENTIAL)
    ran = project.run("snakemake", *MEASURE, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert whys(project) == [None] * 2
    for record in project.records().values():
        assert record["metrics"]["write_bytes"] == record["metrics"]["read_bytes"] == 3 * 2 * 8 << 20
        assert "n2:2,n1:2,n3:2" in record["phases"][0]["argv"]
    if "mdtest" in build.tools:
        shutil.rmtree(project.root / "results/records")
        project.write_study(**SMALL, cells=METADATA)
        ran = project.run("snakemake", *MEASURE, timeout=600)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert whys(project) == [None] * 2
        assert {record["metrics"]["stat_files"] for record in project.records().values()} == {300}


def test_srun_in_a_job_that_snakemake_submits(make: Make) -> None:
    project = make(launcher="srun", launcher_options=["--mpi=pmix"])
    project.write_study(**SMALL, **SEQUENTIAL)
    ran = project.run("snakemake", "--profile", "slurm", *MEASURE, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert whys(project) == [None] * 2
    assert {record["phases"][0]["argv"][0] for record in project.records().values()} == {"srun"}


def test_tasks_that_are_placed_otherwise_fail_every_cell_and_the_report_says_why(build: Build, make: Make) -> None:
    """Three on each of two hosts, and none on the third: so a site's own option has it."""
    if build.name != "4.0.0-openmpi":
        pytest.skip("the same with each build; shown with one")
    project = make(launcher="openmpi", launcher_options=[*TCP, "--map-by", "ppr:3:node"])
    project.write_study(**SMALL, **SEQUENTIAL)
    ran = project.run("snakemake", "small", timeout=600)
    assert ran.returncode != 0
    expected = "write: 6 tasks ran on 2 nodes, 3 of them on the first; requested were 3 nodes with 2 on each"
    assert [str(why).startswith(expected) for why in whys(project)] == [True, True], whys(project)
    assert "6 tasks ran on 2 nodes" in ran.stdout + ran.stderr, "the summary has the reasons"
    assert "6 tasks ran on 2 nodes" in (project.root / "results/report/testbed/small/index.html").read_text()
