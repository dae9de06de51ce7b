"""Four clients over SSH, one of them the launcher: caches cold on all, fio on all, files made by all."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster_project import ClusterProject
from project import make_project
from testbed import Testbed

from fsage.agent import structure

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(600)]
CLIENTS = ["n1", "n2", "n3"]
SMALL = {"states__capacity": [30], "states__fragmentation": [50], "cells__transfer_size": ["4M"], "headline": []}


@pytest.fixture
def shared(testbed: Testbed, tmp_path: Path) -> Iterator[ClusterProject]:
    """A project whose target is a directory that all hosts share; n2 launches, n4 serves. Claimed."""
    place = Path(tempfile.mkdtemp(prefix="fsage-test-shared-", dir="/var/tmp"))
    spec = {
        "name": "shared",
        "kind": "directory",
        "directory": str(place / "target"),
        "home": str(place / "home"),
        "budget_gib": 0.5,
        "scale": {"file_size": 0.125, "tasks": 2},
        "amount_mib": 8,
    }
    made = make_project(tmp_path / "clone", spec)
    groups = {"launcher": ["n2"], "clients": CLIENTS, "servers": ["n4"]}
    hosts = {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items()}
    (made.root / "inventories/shared/hosts.yml").write_text(yaml.safe_dump({"all": {"children": hosts}}))
    project = ClusterProject(made.root, made.spec, {**made.env, "HOME": str(testbed.folder)}, testbed)
    ran = project.playbook("local_target.yml", "claim.yml", "-e", "claim_copy=results/targets/shared.json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    yield project
    released = project.playbook("release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent")
    assert released.returncode == 0, released.stdout + released.stderr
    shutil.rmtree(place)


def request(project: ClusterProject, state: str) -> str:
    """The words that give a playbook the request for a state of the study."""
    made = project.fsage("request", "small", state)
    assert made.returncode == 0, made.stderr
    (project.root / "request.json").write_text(made.stdout)
    return "@request.json"


def fillers(place: Path) -> dict[str, tuple[int, int]]:
    """Bytes and inode of each file of the structure."""
    found = structure.fillers(place)
    return {f"{Path(one.path).parent.name}/{one.name}": (one.stat().st_size, one.stat().st_ino) for one in found}


def test_a_study_with_fio_on_three_clients(shared: ClusterProject) -> None:
    shared.write_study(**SMALL)
    ran = shared.snakemake("small")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    records = shared.records()
    assert len(records) == 2
    for record in records.values():
        assert (record["status"], record["why"]) == ("valid", None)
        assert (record["host"], record["hosts"]) == ("n2", ["n2", "n1", "n3"])
        assert record["metrics"]["write_bytes"] == record["metrics"]["read_bytes"] == 3 * 2 * 8 << 20
        for phase in record["phases"]:
            assert phase["argv"][:3] == ["fio", "--output-format=json", "--eta=never"]
            assert [word for word in phase["argv"] if "client" in word] == [f"--client={n}" for n in record["hosts"]]
            assert phase["cached_pages"] == 0
            dropped = phase["cache_drop_hosts"]
            assert {name: one["method"] for name, one in dropped.items()} == dict.fromkeys(
                ["n1", "n3", "n4"], "drop_caches=3"
            )
            assert dropped["n1"]["cached_pages"] == dropped["n3"]["cached_pages"] == 0
            assert "cached_pages" not in dropped["n4"], "a server has no files of ours"
    assert not list((Path(shared.spec["directory"]) / "measured").iterdir())


def test_another_set_of_hosts_is_refused(shared: ClusterProject) -> None:
    shared.write_study(**SMALL)
    path = shared.root / "inventories/shared/hosts.yml"
    hosts = yaml.safe_load(path.read_text())
    del hosts["all"]["children"]["clients"]["hosts"]["n3"]
    path.write_text(yaml.safe_dump(hosts))
    ran = shared.snakemake("small")
    assert ran.returncode != 0
    assert "was claimed for the clients n2, n1, n3, and the inventory names n2, n1" in ran.stdout + ran.stderr
    hosts["all"]["children"]["launcher"]["hosts"] = {"n4": None}
    path.write_text(yaml.safe_dump(hosts))
    ran = shared.playbook("release.yml", "--check")
    assert "the group launcher has n4: name one host of the group clients, which has n1, n2" in " ".join(
        (ran.stdout + ran.stderr).split()
    )
    hosts["all"]["children"]["launcher"]["hosts"] = {"n2": None}
    path.write_text(yaml.safe_dump(hosts))


def test_a_host_that_is_lost_fails_the_step_and_its_share_is_made_by_the_next_run(shared: ClusterProject) -> None:
    assert shared.testbed
    shared.write_study(**SMALL)
    asked = request(shared, "30.50@8M")
    steps = json.loads((shared.root / "request.json").read_text())["fsage_request"]["steps"]
    capacity_bytes = json.loads((shared.home / "claim.json").read_text())["capacity_bytes"]
    place = Path(shared.spec["directory"])
    assert shared.playbook("scrub.yml", "-e", asked).returncode == 0
    for playbook, done in (("populate.yml", steps[:1]), ("fragment.yml", steps)):
        whole = structure.expected(done, capacity_bytes)
        shared.testbed.power_off("n3")
        ran = shared.playbook(playbook, "-e", asked)
        assert ran.returncode != 0
        assert "n3" in ran.stdout and "UNREACHABLE" in ran.stdout
        before = fillers(place)
        assert set(before) != {f"g{generation}/{index:07d}" for generation, index in whole}

        shared.testbed.power_on("n3")
        shared.testbed.wait_until_idle("n3")
        ran = shared.playbook("scrub.yml", playbook, "-e", asked)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        after = fillers(place)
        assert {name: size for name, (size, _) in after.items()} == {
            f"g{generation}/{index:07d}": size for (generation, index), size in whole.items()
        }
        fewer, more = (before, after) if playbook == "populate.yml" else (after, before)
        assert fewer.items() <= more.items(), "what the others did stays"
