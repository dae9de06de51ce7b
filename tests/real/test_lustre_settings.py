"""Settings of a real Lustre that others share: noted before they are set, restored by the last one, killed or not."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator

import lustre_vm as real
import pytest
import yaml
from lustre_vm import LustreProject, kill_group, ssh

pytestmark = real.MARKS
RPCS, TUNED = "max_rpcs_in_flight", {"max_rpcs_in_flight": 16}
ONE = {"states__capacity": [10], "states__fragmentation": [0], "states__file_size": ["8M"], "headline": []}
CELLS = {"cells__iterations": 1, "cells__transfer_size": ["1M"]}
NEIGHBOUR = "/mnt/lustre2"
BUSY = f"""mkdir -p {NEIGHBOUR}; mount -t lustre $(findmnt -n -o SOURCE {real.MOUNT}) {NEIGHBOUR}; cd {NEIGHBOUR}
nohup sh -c 'while echo x > others; do cat others > /dev/null; sleep 0.05; done' >/dev/null 2>&1 &
echo $! > /tmp/fsage-neighbour"""
QUIET = f"""kill $(cat /tmp/fsage-neighbour); sleep 1; rm -f {NEIGHBOUR}/others /tmp/fsage-neighbour
umount {NEIGHBOUR} && rmdir {NEIGHBOUR}"""
EVICT = f"lctl set_param obdfilter.{real.FSNAME}-OST0005.evict_client=$(lctl get_param -n llite.*.uuid | head -n 1)"
FILES = f"find {real.MOUNT}/own/measured -type f -size +0 2>/dev/null"
WRITTEN = f"timeout 250 sh -c 'until {FILES} | grep -q .; do sleep 0.2; done'"
SETTINGS = "cat /var/lib/fsage/settings.json 2>/dev/null"


def rpcs() -> set[str]:
    """What the client's connections have."""
    return set(ssh(f"lctl get_param -n osc.{real.FSNAME}-OST*-osc-[^M]*.{RPCS}").split())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """A clone with two targets of root on that Lustre, own and own2; own's files lie on OSTs 1 and 4."""
    spec = real.declaration(capacity_gib=0.5, free_percent=100, osts=[1, 4], stripe_count=2)
    spec |= {
        "name": "own",
        "directory": f"{real.MOUNT}/own",
        "amount_mib": 8,
        "scale": {"file_size": 0.125, "tasks": 1},
    }
    made = real.project_in(tmp_path_factory.mktemp("settings") / "clone", spec)
    other = {**copy.deepcopy(spec), "name": "own2", "directory": f"{real.MOUNT}/own2"}
    folder = made.root / "inventories" / "own2"
    shutil.copytree(made.root / "inventories" / "own", folder)
    (folder / "group_vars/all/target.yml").write_text(yaml.safe_dump({"fsage_target": other}))
    made.write_study(**ONE, **CELLS)
    try:
        for name in ("own", "own2"):
            made.done(*playing(name, made, "local_target.yml", "claim.yml"))
        yield made
    finally:
        for name in ("own", "own2"):
            made.done(*playing(name, made, "release.yml", "local_target.yml", "-e", "fsage_local_target_state=absent"))
        left = ssh("ls -d /var/lib/fsage 2>/dev/null", check=False) + ssh(f"ls -d {real.MOUNT}/own*", check=False)
    assert left.split() == [] and rpcs() == {"8"} and set(real.tables().values()) == {real.OWN_TABLE}


@pytest.fixture(autouse=True)
def restored(project: LustreProject) -> Iterator[None]:
    """What a test that failed left set is put back, so that the next one finds what it began with."""
    yield
    project.end_started()
    project.forget()
    if not ssh(SETTINGS, check=False):
        return
    for name in ("own", "own2"):
        project.done(*playing(name, project, "tune_prealloc.yml", "-e", "tune_prealloc_state=restored"))
        project.done(*playing(name, project, "tune_clients.yml", "-e", "tune_clients_state=restored"))


def playing(name: str, project: LustreProject, *words: str) -> tuple[str, ...]:
    """Playbooks on one of the targets."""
    return tuple(word.replace("inventories/own", f"inventories/{name}") for word in project.playing(*words))


def measure(project: LustreProject, **study: object) -> dict:
    """The record of the study's one cell."""
    project.write_study(**ONE, **CELLS, **study)
    project.done("snakemake", "--config", "target=own", *real.ALL)
    (record,) = project.records().values()
    return record


def test_two_targets_that_set_the_same_restore_what_was_there_first(project: LustreProject) -> None:
    tried = project.done(*playing("own", project, "tune_prealloc.yml", "--check", "-e", "tune_prealloc_size=4MiB"))
    assert f"{real.OWN_TABLE} -> 256 512 1024" in tried and set(real.tables().values()) == {real.OWN_TABLE}
    for name, size in (("own", "4MiB"), ("own2", "8MiB")):
        project.done(*playing(name, project, "tune_prealloc.yml", "-e", f"tune_prealloc_size={size}"))
    assert set(real.tables().values()) == {"256 512 1024 2048"}
    project.write_study(**ONE, **CELLS)
    said = project.fails("snakemake", "--config", "target=own", *real.ALL)
    assert "tune_prealloc.yml had set '256 512 1024'" in said and "Another target's" in said, said[-3000:]
    project.done(*playing("own", project, "tune_prealloc.yml", "-e", "tune_prealloc_state=restored"))
    assert set(real.tables().values()) == {"256 512 1024 2048"}, "of who is left"
    record = measure(project)
    assert record["status"] == "failed" and "target own has not set it: target own2 of user 0" in str(record["why"])
    project.forget()
    project.done(*playing("own2", project, "tune_prealloc.yml", "-e", "tune_prealloc_state=restored"))
    assert set(real.tables().values()) == {real.OWN_TABLE} and not ssh(SETTINGS, check=False)


def test_a_run_restores_its_tunables_and_the_next_study_is_measured_without(project: LustreProject) -> None:
    record = measure(project, tuning=TUNED)
    assert record["status"] == "valid", record["why"]
    assert set(record["conditions"]["tunables"][RPCS]["now"].values()) == {"16"}
    assert rpcs() == {"8"} and not ssh(SETTINGS, check=False), "when it ended"
    project.forget()


def test_what_a_killed_run_set_is_put_back_by_the_next_command_of_any_target(project: LustreProject) -> None:
    project.write_study(**ONE, **{**CELLS, "cells__iterations": 3}, tuning=TUNED)
    started = project.start("snakemake", "--config", "target=own", *real.ALL)
    ssh(WRITTEN)
    kill_group(started)
    assert rpcs() == {"16"} and json.loads(ssh(SETTINGS))["tunables"]
    record = measure(project)
    assert record["status"] == "valid" and record["conditions"]["tunables"] == {}, record["why"]
    assert rpcs() == {"8"} and not ssh(SETTINGS, check=False)
    project.forget()


def test_a_neighbour_on_a_mount_of_his_own_and_one_on_the_same_fail_no_cell(project: LustreProject) -> None:
    ssh(BUSY)
    try:
        record = measure(project)
        assert record["status"] == "valid", record["why"]
        assert record["phases"][0]["cache_drop"].startswith("lru_size=clear"), record["phases"][0]["cache_drop"]
    finally:
        ssh(QUIET, check=False)
        project.forget()


def test_an_ost_without_files_of_the_target_may_evict_the_client(project: LustreProject) -> None:
    project.write_study(**ONE, **CELLS)
    started = project.start("snakemake", "--config", "target=own", *real.ALL)
    ssh(f"{WRITTEN} && {EVICT}")
    started.wait(timeout=900)
    (record,) = project.records().values()
    assert record["status"] == "valid", record["why"]
    project.forget()
