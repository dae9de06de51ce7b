"""Four targets, each on a host of its own: at the same time, over SSH and in Slurm; one is lost amid a study."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_project import ClusterProject, shared_directory
from project import MEASURE, make_project
from testbed import Testbed, wait_for

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(900)]
HOSTS = ["n1", "n2", "n3", "n4"]
NAMES = [f"of-{host}" for host in HOSTS]
TARGETS = f"target={','.join(NAMES)}"
COMMON = {"30.00@8M", "60.00@8M"}
SHARED = {"30.50@8M", "60.50@8M"}


@pytest.fixture
def four(testbed: Testbed, tmp_path: Path) -> Iterator[ClusterProject]:
    """A project whose targets are directories, one on each host."""
    place = Path(tempfile.mkdtemp(prefix="fsage-test-", dir="/var/tmp"))
    made = make_project(tmp_path / "clone", shared_directory(place / NAMES[0], tasks=1))
    shutil.copytree(made.root / "profiles/slurm", made.root / "slurm")
    project = ClusterProject(made.root, made.spec, {**made.env, "HOME": str(testbed.folder)}, testbed)
    project.write_study(targets="share", cells__transfer_size=["4M"])
    for name, host in zip(NAMES, HOSTS, strict=True):
        project.declare({**shared_directory(place / name, tasks=1), "name": name})
        groups = {"launcher": {"hosts": {}}, "clients": {"hosts": {host: None}}, "servers": {"hosts": {}}}
        (project.root / f"inventories/{name}/hosts.yml").write_text(yaml.safe_dump({"all": {"children": groups}}))
    yield project
    testbed.run("scancel", "--full", "--user=root")
    for name in NAMES:
        words = ["-i", f"inventories/{name}", "playbooks/release.yml", "playbooks/local_target.yml"]
        released = project.run("ansible-playbook", *words, "-e", "fsage_local_target_state=absent")
        assert released.returncode == 0, released.stdout + released.stderr
    shutil.rmtree(place)


def records(project: ClusterProject, name: str) -> list[dict[str, Any]]:
    folder = project.root / "results/records" / name / "small"
    return [json.loads(path.read_text()) for path in folder.glob("*/*.json")]


def states(project: ClusterProject, name: str) -> set[str]:
    return {record["state"] for record in records(project, name)}


@pytest.mark.long
def test_they_measure_at_the_same_time(four: ClusterProject) -> None:
    ran = four.run("snakemake", "--cores", "4", "--config", TARGETS, *MEASURE)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    spans = []
    for name, host in zip(NAMES, HOSTS, strict=True):
        mine = records(four, name)
        assert {record["host"] for record in mine} == {host} and {record["status"] for record in mine} == {"valid"}
        assert states(four, name) >= COMMON
        spans.append((min(record["began"] for record in mine), max(record["ended"] for record in mine)))
    assert set().union(*(states(four, name) for name in NAMES)) == COMMON | SHARED
    assert any(later[0] < earlier[1] for earlier, later in itertools.pairwise(sorted(spans))), spans


@pytest.mark.long
def test_one_that_is_lost_costs_its_share_and_the_others_take_it_over(four: ClusterProject) -> None:
    assert four.testbed
    words = ("snakemake", "--profile", "slurm", "--slurm-init-seconds-before-status-checks", "1", "--config")
    run = four.start(*words, TARGETS, *MEASURE)
    log = four.root / "started.log"
    wait_for(lambda: bool(records(four, NAMES[0])) or run.poll() is not None, 240, f"a record; see {log}")
    four.testbed.power_off("n1")
    assert run.wait(timeout=400) != 0
    said = log.read_text()
    assert "Traceback" not in said and "n1" in said
    for name in NAMES[1:]:
        assert states(four, name) >= COMMON, said
    four.testbed.power_on("n1")
    four.testbed.wait_until_idle("n1")
    before = {name: len(records(four, name)) for name in NAMES}
    ran = four.run(*words, TARGETS, f"lost={NAMES[0]}", *MEASURE, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(records(four, NAMES[0])) == before[NAMES[0]], "nothing more is done on it"
    whole = {state for name in NAMES for state in states(four, name)}
    assert whole == COMMON | SHARED
