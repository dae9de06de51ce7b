"""Four hosts over SSH: three clients, of which one launches, and a server. The inventory is `testbed`."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import ahead
import pytest
import yaml
from cluster_project import SMALL, ClusterProject, on_shared_directory
from project import printed, succeeded
from testbed import Testbed

from fsage.host.structure import fillers as entries
from fsage.model import structure

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]
CLIENTS, LAUNCHER, SERVERS = ["n1", "n2", "n3"], ["n2"], ["n4"]
IN_ORDER = ["n2", "n1", "n3"]
HOSTS = ["n1", "n3", "n4"]  # other than the launcher
STATE = "30.50@8M"


@pytest.fixture(scope="module")
def shared(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProject]:
    """A project whose target is a directory that all hosts share. Claimed."""
    with on_shared_directory(testbed, tmp_path_factory.mktemp("hosts") / "clone") as project:
        project.write_hosts(CLIENTS, LAUNCHER, SERVERS)
        succeeded(project.playbook("local_target.yml", "claim.yml", "-e", "claim_copy=results/targets/testbed.json"))
        yield project


def request(project: ClusterProject) -> str:
    """The words that give a playbook the request for STATE and its cells."""
    made = succeeded(project.fsage("request", "small", STATE))
    (project.root / "request.json").write_text(made.stdout)
    return "fsage_request=request.json"


def fillers(project: ClusterProject) -> dict[str, tuple[int, int]]:
    """Bytes and inode of each file of the structure, by its path."""
    found = entries(Path(project.spec["directory"]))
    return {f"{Path(each.path).parent.name}/{each.name}": (each.stat().st_size, each.stat().st_ino) for each in found}


def assert_made(project: ClusterProject, count: int) -> None:
    """What the first steps of the last request make on the claimed target is there, and nothing else."""
    steps = json.loads((project.root / "request.json").read_text())["steps"][:count]
    claimed = json.loads((project.home / "claim.json").read_text())
    whole = structure.expected(structure.read_all(steps), claimed["capacity_bytes"])
    expected = {f"g{generation}/{index:07d}": size for (generation, index), size in whole.items()}
    assert {name: size for name, (size, _) in fillers(project).items()} == expected


@pytest.mark.long
def test_a_study_with_fio_on_three_clients_has_the_cells_that_are_planned(shared: ClusterProject) -> None:
    succeeded(shared.measure())
    for record in shared.whole(2).values():
        assert record["why"] is None
        assert (record["host"], record["hosts"]) == ("n2", IN_ORDER)
        assert record["metrics"]["write_bytes"] == record["metrics"]["read_bytes"] == 3 * 2 * 8 << 20
        for phase in record["phases"]:
            assert phase["argv"] == ["fio", "--output-format=json", "--eta=never", "-"]
            assert sorted(phase["by_host"]) == sorted(phase["jobs"]) == sorted(IN_ORDER)
            assert record["metrics"][f"{phase['name']}_start_spread_ms"] < 5000
            assert phase["cached_pages"] == 0
            dropped = phase["cache_drop_hosts"]
            assert {name: each["method"] for name, each in dropped.items()} == dict.fromkeys(HOSTS, "drop_caches=3")
            assert dropped["n1"]["cached_pages"] == dropped["n3"]["cached_pages"] == 0
            assert "cached_pages" not in dropped["n4"], "a server has no files of ours"
    request(shared)
    assert_made(shared, 2)
    assert not list((Path(shared.spec["directory"]) / "measured").iterdir())


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
    asked = request(shared)
    before = fillers(shared)
    hosts = shared.root / "inventories/testbed/hosts.yml"
    inventory = yaml.safe_load(hosts.read_text())
    inventory["all"]["children"]["clients"]["hosts"]["n3"] = {"ansible_python_interpreter": f"{tmp_path}/python3"}
    hosts.write_text(yaml.safe_dump(inventory))
    try:
        for ran in (
            shared.playbook("measure.yml", "-e", asked),
            shared.fsage("--target", "testbed", "site", "small"),
        ):
            assert ran.returncode != 0 and "Traceback" not in printed(ran)
            assert re.search(ahead.refused("n3"), printed(ran)), printed(ran)
        assert fillers(shared) == before
    finally:
        shared.write_hosts(CLIENTS, LAUNCHER, SERVERS)


@pytest.mark.long
def test_without_one_of_its_hosts_a_step_does_not_begin(shared: ClusterProject) -> None:
    asked = request(shared)
    (Path(shared.spec["directory"]) / ".fsage/token.json").write_text("torn\n")
    assert shared.playbook("scrub.yml", "-e", asked).returncode == 0
    for playbook, steps in (("populate.yml", 1), ("fragment.yml", 2)):
        before = fillers(shared)
        shared.testbed.power_off("n3")
        ran = shared.playbook(playbook, "-e", asked)
        assert ran.returncode != 0
        assert "host n3 does not answer" in " ".join(ran.stdout.split())
        assert fillers(shared) == before

        shared.testbed.power_on("n3")
        shared.testbed.wait_until_idle("n3")
        ran = succeeded(shared.playbook("scrub.yml", playbook, "-e", asked))
        assert_made(shared, steps)


@pytest.mark.long
def test_a_host_that_is_lost_amid_a_cell_costs_that_cell(shared: ClusterProject) -> None:
    shared.write_study(**{**SMALL, "cells__iterations": 5})
    run = shared.start("snakemake", "small")
    outbox = shared.home / "outbox"
    shared.wait_amid(run, lambda: list(outbox.rglob("*.json")))
    shared.testbed.power_off("n3")
    assert run.wait(timeout=120) != 0
    assert "host n3 was lost" in " ".join(shared.log().split())
    before = shared.taken()
    shared.testbed.power_on("n3")
    shared.testbed.wait_until_idle("n3")
    succeeded(shared.snakemake("small"))
    assert before.items() <= shared.taken().items()
    assert [record["status"] for record in shared.records().values()] == ["valid"] * 5
    shared.write_study(**SMALL)
