"""Four targets, each on a host of its own: at the same time, over SSH and in Slurm; one is lost amid a study."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_project import ClusterProject, project_on, shared_directory
from project import MEASURE, succeeded
from testbed import Testbed

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(900)]
HOSTS = ["n1", "n2", "n3", "n4"]
NAMES = [f"of-{host}" for host in HOSTS]
TARGETS = f"target={','.join(NAMES)}"
COMMON = {"30.00@8M", "60.00@8M"}
SHARED = {"30.50@8M", "60.50@8M"}


@pytest.fixture
def four(testbed: Testbed, tmp_path: Path) -> Iterator[ClusterProject]:
    """A project whose targets are directories, one on each host."""
    with tempfile.TemporaryDirectory(prefix="fsage-test-", dir="/var/tmp") as place:
        project = project_on(testbed, tmp_path / "clone", shared_directory(Path(place, NAMES[0]), tasks=1))
        project.write_study(targets="share", cells__transfer_size=["4M"])
        for name, host in zip(NAMES, HOSTS, strict=True):
            project.spec = {**shared_directory(Path(place, name), tasks=1), "name": name}
            project.write_target()
            project.write_hosts([host])
        yield project
        testbed.run("scancel", "--full", "--user=root")
        for name in NAMES:
            project.spec["name"] = name
            project.release()


@pytest.mark.long
def test_they_measure_at_the_same_time(four: ClusterProject) -> None:
    succeeded(four.run("snakemake", "--cores", "4", "--config", TARGETS, *MEASURE))
    spans = []
    for name, host in zip(NAMES, HOSTS, strict=True):
        mine = four.records(name).values()
        assert {(record["host"], record["status"]) for record in mine} == {(host, "valid")}
        assert four.states(name) >= COMMON
        spans.append((min(record["began"] for record in mine), max(record["ended"] for record in mine)))
    assert set().union(*(four.states(name) for name in NAMES)) == COMMON | SHARED
    assert any(later[0] < earlier[1] for earlier, later in itertools.pairwise(sorted(spans))), spans


@pytest.mark.long
def test_one_that_is_lost_costs_its_share_and_the_others_take_it_over(four: ClusterProject) -> None:
    words = ("snakemake", "--profile", "slurm", "--config")
    run = four.start(*words, TARGETS, *MEASURE)
    four.wait_amid(run, lambda: four.records(NAMES[0]), 240)
    four.testbed.power_off("n1")
    assert run.wait(timeout=400) != 0
    said = four.log()
    assert "Traceback" not in said and "n1" in said
    for name in NAMES[1:]:
        assert four.states(name) >= COMMON, said
    four.testbed.power_on("n1")
    four.testbed.wait_until_idle("n1")
    before = {name: len(four.records(name)) for name in NAMES}
    succeeded(four.run(*words, TARGETS, f"lost={NAMES[0]}", *MEASURE, timeout=600))
    assert len(four.records(NAMES[0])) == before[NAMES[0]], "nothing more is done on it"
    whole = {state for name in NAMES for state in four.states(name)}
    assert whole == COMMON | SHARED
