"""A plain user measures on a real Lustre, in a project's directory with a quota: no root, no helper, no servers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import HOST, LustreProject, ssh

from fsage.model.observation import KEPT

pytestmark = real.MARKS
USER, GROUP, PROJECT, LIMIT_MIB = "fsageguest", "fsageproj", 4711, 1500
ABOVE = f"{real.MOUNT}/fsageproj"
PLACE = f"{ABOVE}/{USER}/fsage"
MAKE = f"""set -e
groupadd {GROUP}; {real.make_user(USER)}; usermod -aG {GROUP} {USER}
lctl conf_param {real.FSNAME}.quota.ost=ugp; lctl conf_param {real.FSNAME}.quota.mdt=ugp; sleep 8
install -d -m 2770 -o root -g {GROUP} {ABOVE}
lfs project -p {PROJECT} -s -r {ABOVE}
lfs setquota -p {PROJECT} -b 0 -B {LIMIT_MIB}M -i 0 -I 20000 {real.MOUNT}
su {USER} -c 'mkdir -p {ABOVE}/{USER} && chmod 2700 {ABOVE}/{USER}'
"""
UNMAKE = f"""lfs setquota -p {PROJECT} -b 0 -B 0 -i 0 -I 0 {real.MOUNT}; rm -rf {ABOVE}
userdel --force --remove {USER}; groupdel {GROUP}"""
STUDY = {"states__capacity": [10], "states__fragmentation": [50], "states__file_size": ["64M"], "headline": []}
CELLS = {"cells__iterations": 1, "cells__transfer_size": ["4M"]}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """His target. It is not claimed yet, and in the end the machine is as it was."""
    folder = tmp_path_factory.mktemp("guest")
    config = real.reached_as(USER, folder)
    lustre = {"fsname": real.FSNAME, "mgs": real.mgs(), "osts": [0, 2], "stripe_count": 2}
    spec = {**real.declaration(), "lustre": lustre, "directory": PLACE, "amount_mib": 8}
    spec |= {"home": f"/home/{USER}/fsage", "scale": {"file_size": 0.125, "tasks": 2}}
    spec["stop_if"] = {"slower": None, "server_load": 1000, "server_ms": 100_000}  # by what any user may read there
    try:
        ssh(MAKE)
        yield real.project_in(folder / "clone", spec, (HOST,), config, server="", watched=[HOST])
    finally:
        ssh(UNMAKE, check=False)


def test_what_the_claim_would_refuse_is_refused_before_and_a_refused_claim_leaves_nothing(
    project: LustreProject,
) -> None:
    """By the room that his project's quota leaves, for the tasks that he declares; both say the same."""
    project.write_study(**STUDY, **CELLS)
    project.declare(amount_mib=None)
    ssh(f"lfs setquota -p {PROJECT} -b 0 -B 180M -i 0 -I 20000 {real.MOUNT}")
    before = real.everything(USER)
    try:
        why = r"has 17\d MiB, and 15% of it does not hold 64 MiB for each of 2 tasks"
        assert re.search(why, project.fails("fsage", "--target", project.spec["name"], "site", "small"))
        assert re.search(why, project.fails(*project.playing("local_target.yml", "claim.yml")))
        assert sorted(before ^ real.everything(USER)) == []
    finally:
        ssh(f"lfs setquota -p {PROJECT} -b 0 -B {LIMIT_MIB}M -i 0 -I 20000 {real.MOUNT}")
        project.declare(amount_mib=8)


def test_his_whole_life_in_a_project_leaves_the_machine_as_it_was(project: LustreProject) -> None:
    name = project.spec["name"]
    before = real.everything(USER)
    project.write_study(**STUDY, **CELLS)
    page = project.root / "page.html"
    site = ("fsage", "--target", name, "site", "small", "--html", str(page))
    assert "Nothing stands in the way" in project.done(*site)
    text = page.read_text()
    assert f"/home/{USER}/fsage" in text and PLACE in text and "pages of the measured files alone" in text
    assert "drop_caches" not in text and "lru_size" not in text and "at most" in text
    project.claim()
    project.done("snakemake", "small")
    (record,) = project.records().values()
    assert record["status"] == "valid", record["why"]
    assert list((project.root / "results").rglob("index.html"))
    project.forget()
    claim = json.loads((project.root / f"results/targets/{name}.json").read_text())
    assert claim["capacity_bytes"] == min(claim["lustre"]["budget"].values()) <= LIMIT_MIB << 20
    assert f"quota of project {PROJECT}" in claim["lustre"]["budget"]
    assert set(record["phases"][0]["placement"]["stripes"]) == {"0", "2"}
    read = record["phases"][1]
    assert (read["cache_drop"], read["metadata"]) == ("posix_fadvise(DONTNEED)", KEPT)
    assert record["osts"]["brw_stats"] is None and "brw_stats" in record["osts"]["absent"]
    assert "cold caches of the servers" in record["absent"], "they are only watched"
    assert (record["servers"], record["watched"]) == ([], [HOST])
    assert ssh(f"ls -A {real.MOUNT}").split() == ["fsageproj"], "his mark lies in his directory"
    project.release()
    assert not (project.root / f"results/targets/{name}.json").exists()
    assert sorted(before ^ real.everything(USER)) == []


def test_a_quota_that_is_reached_amid_a_cell_fails_it_with_that_reason(project: LustreProject) -> None:
    project.claim()
    try:
        used = int(ssh(f"lfs quota -q -p {PROJECT} {real.MOUNT}").split()[1].rstrip("*")) // 1024
        ssh(f"lfs setquota -p {PROJECT} -b 0 -B {used + 24}M {real.MOUNT}")
        project.write_study(**{**STUDY, "states__fragmentation": [0]}, **CELLS)
        project.done("snakemake", *real.ALL)
        (why,) = (record["why"] for record in project.records().values())
        assert "Disk quota exceeded" in str(why), why
    finally:
        ssh(f"lfs setquota -p {PROJECT} -b 0 -B {LIMIT_MIB}M {real.MOUNT}")
        project.forget()
        project.release()


OF_A_CELL = '"^fio .*measured"'
SETS = "for each in osc.{0}-OST0000-*.active osp.{0}-OST0000-*.active; do lctl set_param $each={1}; done"


def test_an_ost_of_his_that_is_deactivated_amid_a_cell_is_named(project: LustreProject) -> None:
    """In record or warnings of the cell, and by the next command. The first fio is stopped meanwhile."""
    project.declare(stop_if=None)
    project.claim()
    project.write_study(**{**STUDY, "states__fragmentation": [0]}, **{**CELLS, "cells__transfer_size": ["64K"]})
    lose = f"{SETS.format(real.FSNAME, 0)}; pkill -CONT -f {OF_A_CELL}"
    stopped = f"until pkill -STOP -f {OF_A_CELL}; do sleep 0.02; done; {lose}"
    ssh(f"setsid sh -c '{stopped}' </dev/null >/dev/null 2>&1 &")
    started = project.start("snakemake", *real.ALL)
    try:
        started.wait(timeout=1800)
        (record,) = project.records().values()
        assert record["status"] == "failed" and "OST0000" in json.dumps([record["why"], record["warnings"]])
        project.forget()
        assert "OST0000" in project.fails("snakemake", *real.ALL)
    finally:
        ssh(SETS.format(real.FSNAME, 1))
    project.valid_again()
    project.release()
