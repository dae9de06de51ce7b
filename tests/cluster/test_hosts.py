"""Four hosts over SSH: three clients, of which one launches, and a server. The inventory is `testbed`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ahead
import pytest
import yaml
from cluster_project import ClusterProject, shared_directory
from project import make_project
from testbed import Testbed, wait_for

from fsage.host.structure import fillers as entries
from fsage.model import structure

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]
GROUPS = {"launcher": ["n2"], "clients": ["n1", "n2", "n3"], "servers": ["n4"]}
IN_ORDER = ["n2", "n1", "n3"]
STATE = "30.50@8M"
SMALL = {"states__capacity": [30], "states__fragmentation": [50], "cells__transfer_size": ["4M"], "headline": []}


@pytest.fixture(scope="module")
def shared(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProject]:
    """A project whose target is a directory that all hosts share. Claimed."""
    place = Path(tempfile.mkdtemp(prefix="fsage-test-", dir="/var/tmp"))
    made = make_project(tmp_path_factory.mktemp("hosts") / "clone", shared_directory(place, tasks=2))
    project = ClusterProject(made.root, made.spec, {**made.env, "HOME": str(testbed.folder)}, testbed)
    project.write_study(**SMALL)
    write_hosts(project)
    ran = project.playbook("local_target.yml", "claim.yml", "-e", "claim_copy=results/targets/testbed.json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    yield project
    released = project.playbook("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent")
    assert released.returncode == 0, released.stdout + released.stderr
    shutil.rmtree(place)


def write_hosts(project: ClusterProject, **changed: list[str]) -> None:
    """Write inventories/testbed/hosts.yml."""
    groups = {group: {"hosts": dict.fromkeys(names)} for group, names in {**GROUPS, **changed}.items()}
    text = yaml.safe_dump({"all": {"children": groups}})
    (project.root / "inventories/testbed/hosts.yml").write_text(text)


def request(project: ClusterProject) -> str:
    """The words that give a playbook the request for STATE and its cells."""
    made = project.fsage("request", "small", STATE)
    assert made.returncode == 0, made.stderr
    (project.root / "request.json").write_text(made.stdout)
    return "fsage_request=request.json"


def fillers(place: str) -> dict[str, tuple[int, int]]:
    """Bytes and inode of each file of the structure, by its path."""
    found = entries(Path(place))
    return {f"{Path(each.path).parent.name}/{each.name}": (each.stat().st_size, each.stat().st_ino) for each in found}


def sizes(project: ClusterProject) -> dict[str, int]:
    """Bytes of each file of the structure, by its path."""
    return {name: size for name, (size, _) in fillers(project.spec["directory"]).items()}


def steps_of(project: ClusterProject) -> list[dict]:
    """The steps of the last request."""
    return json.loads((project.root / "request.json").read_text())["steps"]


def expected(project: ClusterProject, steps: list[dict]) -> dict[str, int]:
    """Bytes of each file that these steps make on the claimed target and leave there, by its path."""
    claimed = json.loads((project.home / "claim.json").read_text())
    whole = structure.expected(structure.read_all(steps), claimed["capacity_bytes"])
    return {f"g{generation}/{index:07d}": size for (generation, index), size in whole.items()}


@pytest.mark.long
def test_a_study_with_fio_on_three_clients_has_the_cells_that_are_planned(shared: ClusterProject) -> None:
    ran = shared.measure()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    records, planned = shared.records(), shared.planned()
    assert {name: {key: record[key] for key in planned[name]} for name, record in records.items()} == planned
    for record in records.values():
        assert (record["status"], record["why"]) == ("valid", None)
        assert (record["host"], record["hosts"]) == ("n2", IN_ORDER)
        assert record["metrics"]["write_bytes"] == record["metrics"]["read_bytes"] == 3 * 2 * 8 << 20
        for phase in record["phases"]:
            assert phase["argv"] == ["fio", "--output-format=json", "--eta=never", "-"]
            assert sorted(phase["by_host"]) == sorted(phase["jobs"]) == sorted(IN_ORDER)
            assert record["metrics"][f"{phase['name']}_start_spread_ms"] < 5000
            assert phase["cached_pages"] == 0
            dropped = phase["cache_drop_hosts"]
            assert {name: each["method"] for name, each in dropped.items()} == dict.fromkeys(
                ["n1", "n3", "n4"], "drop_caches=3"
            )
            assert dropped["n1"]["cached_pages"] == dropped["n3"]["cached_pages"] == 0
            assert "cached_pages" not in dropped["n4"], "a server has no files of ours"
    request(shared)
    assert sizes(shared) == expected(shared, steps_of(shared))
    assert not list((Path(shared.spec["directory"]) / "measured").iterdir())


@pytest.mark.long  # without SSH: test_hosts_requested
def test_other_hosts_than_those_of_the_claim_are_refused(shared: ClusterProject) -> None:
    asked = request(shared)
    for changed, said in (
        ({"clients": ["n1", "n2"]}, "was claimed for the clients n2, n1, n3, and the inventory names n2, n1"),
        ({"launcher": ["n4"]}, "the group launcher has n4: name one host of the group clients, which has n1, n2, n3"),
        ({"servers": ["n4", "n5"]}, "host n5 does not answer: ssh: Could not resolve hostname n5"),
    ):
        write_hosts(shared, **changed)
        ran = shared.playbook("measure.yml", "-e", asked)
        assert ran.returncode != 0
        assert said in " ".join((ran.stdout + ran.stderr).split())
    write_hosts(shared)


@pytest.mark.long
def test_a_host_whose_clock_is_5_s_ahead_is_refused_before_anything_is_done(
    shared: ClusterProject, tmp_path: Path
) -> None:
    """All programs of these hosts share a kernel, so the Python of one host gets another clock."""
    if not shutil.which("cc"):
        pytest.skip("no cc")
    subprocess.run(["sh", "-c", ahead.make(str(tmp_path))], input=ahead.SOURCE, check=True)
    for path in tmp_path.parents[:2]:
        path.chmod(0o755)
    asked, before = request(shared), fillers(shared.spec["directory"])
    hosts = shared.root / "inventories/testbed/hosts.yml"
    inventory = yaml.safe_load(hosts.read_text())
    inventory["all"]["children"]["clients"]["hosts"]["n3"] = {"ansible_python_interpreter": f"{tmp_path}/python3"}
    hosts.write_text(yaml.safe_dump(inventory))
    try:
        for ran in (
            shared.playbook("measure.yml", "-e", asked),
            shared.fsage("--target", "testbed", "site", "small"),
        ):
            printed = " ".join((ran.stdout + ran.stderr).split())
            assert ran.returncode != 0 and "Traceback" not in printed
            assert re.search(ahead.refused("n3"), printed), printed
        assert fillers(shared.spec["directory"]) == before
    finally:
        write_hosts(shared)


@pytest.mark.long
def test_without_one_of_its_hosts_a_step_does_not_begin(shared: ClusterProject) -> None:
    assert shared.testbed
    asked = request(shared)
    steps = steps_of(shared)
    place = shared.spec["directory"]
    (Path(place) / ".fsage/token.json").write_text("torn\n")
    assert shared.playbook("scrub.yml", "-e", asked).returncode == 0
    for playbook, done in (("populate.yml", steps[:1]), ("fragment.yml", steps)):
        before = fillers(place)
        shared.testbed.power_off("n3")
        ran = shared.playbook(playbook, "-e", asked)
        assert ran.returncode != 0
        assert "host n3 does not answer" in " ".join(ran.stdout.split())
        assert fillers(place) == before

        shared.testbed.power_on("n3")
        shared.testbed.wait_until_idle("n3")
        ran = shared.playbook("scrub.yml", playbook, "-e", asked)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert sizes(shared) == expected(shared, done)


@pytest.mark.long
def test_a_host_that_is_lost_amid_a_cell_costs_that_cell(shared: ClusterProject) -> None:
    assert shared.testbed
    shared.write_study(**{**SMALL, "cells__iterations": 5})
    run = shared.start("snakemake", "small")
    outbox = shared.home / "outbox"
    log = shared.root / "started.log"
    wait_for(lambda: len(list(outbox.rglob("*.json"))) >= 1 or run.poll() is not None, 120, f"a cell; see {log}")
    shared.testbed.power_off("n3")
    assert run.wait(timeout=120) != 0
    assert "host n3 was lost" in " ".join(log.read_text().split())
    before = shared.taken()
    shared.testbed.power_on("n3")
    shared.testbed.wait_until_idle("n3")
    ran = shared.snakemake("small")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert before.items() <= shared.taken().items()
    assert [record["status"] for record in shared.records().values()] == ["valid"] * 5
    shared.write_study(**SMALL)
