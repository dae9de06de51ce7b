"""A real Lustre, from claim to release: FSAGE_LUSTRE_SSH=HOST ./run pytest -n 0 -m long tests/real/test_lustre.py."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import LustreProject, ssh
from project import kill_group

pytestmark = real.MARKS
PAF = {
    "states__capacity": [10],
    "states__file_size": ["64M"],
    "cells__transfer_size": ["4M"],
    "headline": [],
}
FULL, HALF = "10.00@64M", "10.50@64M"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A target on all of the file system, with a study of two states."""
    with real.at_work(tmp_path_factory.mktemp("lustre")) as made:
        made.write_study(**PAF)
        yield made


def test_the_readmes_third_step_is_enough_for_a_request(project: LustreProject) -> None:
    request = json.loads(project.request(FULL).read_text())
    assert request["claim"] == project.claim_file()["id"]


def test_each_cell_begins_with_the_space_that_the_state_left(project: LustreProject) -> None:
    """The files of the cell before are gone from the OSTs, and fullness on record counts none of them."""
    project.done("snakemake", *real.ALL)
    records = project.records()
    assert {record["status"] for record in records.values()} == {"valid"}, project.why()
    for state in (FULL, HALF):
        before = [r["osts"]["fullness"]["before"] for r in records.values() if r["state"] == state]
        for ost in before[0]:
            used = [each[ost]["used_bytes"] / real.MIB for each in before]
            assert max(used) - min(used) < 1, (state, ost, used)
    full, half = (next(r for r in records.values() if r["state"] == state) for state in (FULL, HALF))
    deleted = full["layout"]["filler_bytes"] - half["layout"]["filler_bytes"]
    assert deleted > 0
    assert half["layout"]["free_bytes"] - full["layout"]["free_bytes"] == pytest.approx(deleted, abs=6 * real.MIB)
    (drop, *_) = {phase["cached_pages"] for record in records.values() for phase in record["phases"]}
    assert drop == 0


def test_a_file_of_somebody_else_is_noticed(project: LustreProject) -> None:
    """By the free space of one OST: before a visit, and by the cell during which it was written."""
    project.done("fsage", "remeasure", "small", "--state", HALF)
    foreign = f"{real.MOUNT}/foreign"
    ssh(f"dd if=/dev/zero of={foreign} bs=1M count=20 oflag=direct status=none")
    try:
        said = project.done(*project.playing("scrub.yml", "-e", f"fsage_request={project.request(HALF)}", "--check"))
        assert re.search(r"would empty target lvm: the target was changed since epoch \d+: lustre-OST\d+ holds", said)
    finally:
        ssh(f"rm -f {foreign}")
        real.used_mib()
    started = project.start("snakemake", *real.ALL)
    try:
        real.once_written(f"dd if=/dev/zero of={foreign} bs=1M count=20 oflag=direct status=none")
        started.wait(timeout=900)
    finally:
        ssh(f"rm -f {foreign}")
        real.used_mib()
    failed = {name: why for name, why in project.why().items() if why}
    assert len(failed) == 1, (project.root / "started.log").read_text()
    assert re.search(
        r"cleaning up failed: .*lustre-OST\d+ holds .*\. Either somebody else writes", str(failed.popitem()[1])
    )


def test_a_killed_run_is_looked_up_by_who_asks(project: LustreProject) -> None:
    """Its process was on this machine, the lease is on Lustre's; what it had measured is not measured again."""
    project.done("fsage", "remeasure", "small", "--state", HALF)
    begun = project.start("snakemake", *real.ALL)
    deadline = time.monotonic() + 300
    while "measuring" not in ssh(f"head -c 4096 {real.MOUNT}/fsage/.fsage/token.json", check=False):
        assert time.monotonic() < deadline and begun.poll() is None, (project.root / "started.log").read_text()
        time.sleep(1)
    kill_group(begun)
    project.done(
        *project.playing("scrub.yml", "-e", f"fsage_request={project.request(HALF)}")
    )  # holds for no run: not refused
    project.done("snakemake", *real.ALL)
    assert not any(project.why().values()), project.why()


def test_a_table_that_a_remount_takes_is_noticed(project: LustreProject) -> None:
    project.done(*project.playing("tune_prealloc.yml", "-e", "tune_prealloc_size=4MiB"))
    assert set(real.tables().values()) == {"256 512 1024"}
    project.done("fsage", "remeasure", "small", "--state", HALF, "--cell", sorted(project.cells(HALF))[0])
    ssh("umount /mnt/ost0 && mount -t lustre /dev/vdc /mnt/ost0 && sleep 5")
    said = project.fails("snakemake", *real.ALL)
    assert f"lustre-OST0000 has prealloc_table '{real.OWN_TABLE}', and tune_prealloc.yml had set '256 512 1024'" in said
    project.done(*project.playing("tune_prealloc.yml"))
    assert set(real.tables().values()) == {"256 512 1024"}
    project.done("snakemake", *real.ALL)
    assert not any(project.why().values()), project.why()
    project.done(*project.playing("tune_prealloc.yml", "-e", "tune_prealloc_state=restored"))
    assert set(real.tables().values()) == {real.OWN_TABLE}


def test_tunables_are_said_set_and_put_back(project: LustreProject) -> None:
    project.write_study(**PAF, tuning={"max_rpcs_in_flight": 16})
    request = f"fsage_request={project.request(FULL)}"
    asked = "lctl get_param -n osc.lustre-OST*-osc-[^M]*.max_rpcs_in_flight"
    assert set(ssh(asked).split()) == {"8"}
    said = project.done(*project.playing("tune_clients.yml", "-e", request, "--check"))
    assert "lvm: max_rpcs_in_flight: 8 -> 16 at 6 connections" in said and set(ssh(asked).split()) == {"8"}
    project.done(*project.playing("tune_clients.yml", "-e", request))
    assert set(ssh(asked).split()) == {"16"}
    project.done(*project.playing("tune_clients.yml", "-e", request, "-e", "tune_clients_state=restored"))
    assert set(ssh(asked).split()) == {"8"}
    project.write_study(**PAF)


def test_a_second_claim_leaves_nothing(project: LustreProject, tmp_path: Path) -> None:
    spec = {**real.declaration(), "name": "second", "directory": f"{real.MOUNT}/second"}
    other = real.project_in(tmp_path / "other", spec)
    assert "target lvm has claimed /mnt/lustre" in other.fails("snakemake", *real.ALL)
    assert ssh("ls /mnt/lustre").split() == ["fsage"]
    assert ssh("ls /var/lib/fsage").split() == ["lvm"]


def test_a_site_is_told_its_room(project: LustreProject) -> None:
    project.env["COLUMNS"] = "200"
    said = project.done("fsage", "site", "small")
    assert re.search(r"\d+(\.\d)? GiB in /mnt/lustre", " ".join(said.split())), said
    assert "Nothing stands in the way" in said
