"""A plain user measures on a real Lustre, in a project's directory with a quota: no root, no helper, no servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lustre_vm as real
import pytest
from lustre_vm import HOST, LustreProject, ssh

from fsage.model.caches import KEPT

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
FILESET, POOL = "/mnt/fsage-fileset", f"{real.FSNAME}.fsageguest"
ANEW = f"""set -e
mkdir {FILESET}; mount -t lustre $(findmnt -n -o SOURCE {real.MOUNT})/{Path(ABOVE).name} {FILESET}
lctl pool_new {POOL}; lctl pool_add {POOL} OST[1,3-4]; sleep 3
"""
AWAY = f"""umount {FILESET}; rmdir {FILESET}
lctl pool_remove {POOL} OST[1,3-4]; lctl pool_destroy {POOL}; sleep 3"""
MDTS = "lctl set_param -n mdt.*.enable_remote_dir_gid"
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


def test_his_whole_life_in_a_project_leaves_the_machine_as_it_was(project: LustreProject) -> None:
    name = project.spec["name"]
    before = real.everything(USER)
    project.write_study(**STUDY, **CELLS)
    assert "Nothing stands in the way" in project.done("fsage", "--target", name, "site", "small")
    (record,) = project.measured(**STUDY, **CELLS).values()
    claim = project.claim_file()
    assert claim["capacity_bytes"] == min(claim["lustre"]["budget"].values()) <= LIMIT_MIB << 20
    assert f"quota of project {PROJECT}" in claim["lustre"]["budget"]
    assert set(record["phases"][0]["placement"]["stripes"]) == {"0", "2"}
    assert (record["phases"][1]["cache_drop"], record["phases"][1]["metadata"]) == ("posix_fadvise(DONTNEED)", KEPT)
    assert record["osts"]["brw_stats"] is None and "brw_stats" in record["osts"]["absent"]
    assert "cold caches of the servers" in record["absent"], "they are only watched"
    assert ssh(f"ls -A {real.MOUNT}").split() == ["fsageproj"], "his mark lies in his directory"
    project.done(*project.playing("release.yml"))
    assert not (project.root / f"results/targets/{name}.json").exists()
    assert sorted(before ^ real.everything(USER)) == []


def test_a_quota_that_is_reached_amid_a_cell_fails_it_with_that_reason(project: LustreProject) -> None:
    project.done(*project.playing("local_target.yml", "claim.yml"))
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
        project.done(*project.playing("release.yml"))


def test_a_client_that_mounts_a_fileset_has_files_in_a_declared_pool_and_directories_on_a_declared_mdt(
    project: LustreProject,
) -> None:
    """The site allows him directories on a declared MDT. Before, the claim is refused with what to ask for."""
    lustre = {"fsname": real.FSNAME, "mgs": real.mgs(), "pool": POOL.partition(".")[2], "stripe_count": -1}
    ssh(ANEW)
    before = project.spec["lustre"]
    try:
        project.declare(lustre={**lustre, "mdt_index": 0}, directory=f"{FILESET}/{USER}/fsage")
        refused = project.fails(*project.playing("local_target.yml", "claim.yml"))
        assert "enable_remote_dir_gid" in refused, refused[-3000:]
        ssh(f"{MDTS}=$(getent group {GROUP} | cut -d: -f3)")
        project.done(*project.playing("local_target.yml", "claim.yml"))
        (record,) = project.measured(**STUDY, **CELLS).values()
        assert set(record["phases"][0]["placement"]["stripes"]) == {"1", "3", "4"}
        project.done(*project.playing("release.yml"))
        assert ssh(f"ls -A {ABOVE}/{USER}").split() == []
    finally:
        ssh(f"{MDTS}=0; {AWAY}", check=False)
        project.declare(lustre=before, directory=PLACE)
