"""A plain user measures on a real NFS 4.2, as a guest: the host of FSAGE_LUSTRE_SSH serves it to itself.

It needs Debian's nfs-kernel-server, nfs-common, quota and iptables there. The server lies on an ext4 in a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import lustre_vm as real
import pytest
from lustre_vm import HOST, LustreProject, ssh

from fsage.model.caches import KEPT

USER, EXPORT, MOUNT, IMAGE = "fsagenfs", "/srv/fsage-nfs", "/mnt/fsage-nfs", "/var/tmp/fsage-nfs.img"
PLACE = f"{MOUNT}/{USER}/fsage"
LACKS = "for it in exportfs mount.nfs4 setquota iptables; do command -v $it >/dev/null || echo $it; done"
pytestmark = real.MARKS
# A short lease: a server that was started anew lets clients have their files back after that time.
MAKE = f"""set -e
{real.make_user(USER)}
truncate -s 1G {IMAGE}; mkfs.ext4 -q -O quota {IMAGE}
mkdir -p {EXPORT} {MOUNT}; mount -o loop,usrquota {IMAGE} {EXPORT}
install -d -m 700 -o {USER} -g {USER} {EXPORT}/{USER}
modprobe nfsd; mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
echo 10 >/proc/fs/nfsd/nfsv4leasetime; echo 10 >/proc/fs/nfsd/nfsv4gracetime
systemctl start nfs-server
exportfs -o rw,no_subtree_check,fsid=7 127.0.0.1:{EXPORT}
mount -t nfs -o vers=4.2,hard 127.0.0.1:{EXPORT} {MOUNT}
"""
UNMAKE = f"""umount -f {MOUNT}; exportfs -u 127.0.0.1:{EXPORT}; systemctl stop nfs-server
umount {EXPORT}; rm -f {IMAGE}; rmdir {EXPORT} {MOUNT}; userdel --force --remove {USER}"""
STUDY = {"states__capacity": [10], "states__fragmentation": [0], "states__file_size": ["4M"], "headline": []}
CELLS = {"cells__iterations": 1, "cells__transfer_size": ["64K"]}
DROP = "iptables -{} INPUT -i lo -p tcp --dport 2049 -j DROP"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LustreProject]:
    """His target, not claimed yet."""
    if lacking := ssh(LACKS).split():
        pytest.skip(f"{HOST} lacks {', '.join(lacking)}")
    folder = tmp_path_factory.mktemp("nfs")
    config = real.reached_as(USER, folder)
    spec = {"name": "nfs", "kind": "directory", "directory": PLACE, "budget_gib": 0.5, "amount_mib": 16}
    spec |= {"home": f"/home/{USER}/fsage", "scale": {"file_size": 0.0625, "tasks": 2}}
    try:
        ssh(MAKE)
        yield real.project_in(folder / "clone", spec, (HOST,), config, server="")
    finally:
        ssh(UNMAKE, check=False)


@pytest.fixture
def claimed(project: LustreProject) -> Iterator[LustreProject]:
    """It is claimed, and released in the end."""
    project.done(*project.playing("local_target.yml", "claim.yml"))
    try:
        project.write_study(**STUDY, **CELLS)
        yield project
    finally:
        project.forget()
        project.done(*project.playing("release.yml"))


def test_his_whole_life_leaves_the_machine_as_it_was(project: LustreProject) -> None:
    before = real.everything(USER, MOUNT)
    project.write_study(**STUDY, **CELLS)
    assert "Nothing stands in the way" in project.done("fsage", "--target", "nfs", "site", "small")
    (record,) = project.measured(**STUDY, **CELLS).values()
    assert record["warnings"] == [] and record["check"]["agreed"]
    read = record["phases"][1]
    assert (read["cache_drop"], read["metadata"], read["cached_pages"]) == ("posix_fadvise(DONTNEED)", KEPT, 0)
    assert ssh(f"ls -A {EXPORT}/{USER}").split() == ["fsage"], "his mark lies in his directory"
    project.done(*project.playing("evidence.yml"), "-e", f"fsage_request={project.request('10.00@4M')}")
    project.done(*project.playing("release.yml"))
    assert not (project.root / "results/targets/nfs.json").exists()
    assert sorted(before ^ real.everything(USER, MOUNT)) == []


def test_a_quota_of_the_server_that_is_reached_fails_the_cell_with_that_reason(claimed: LustreProject) -> None:
    """The client is not told of it before."""
    used_kib = int(ssh(f"du -sk {EXPORT}/{USER}").split()[0])
    ssh(f"setquota -u {USER} 0 {used_kib + 24 * 1024} 0 0 {EXPORT}")
    try:
        claimed.done("snakemake", *real.ALL)
        (why,) = claimed.why().values()
        assert "Disk quota exceeded" in str(why), why
    finally:
        ssh(f"setquota -u {USER} 0 0 0 0 {EXPORT}")


def test_a_server_that_does_not_answer_for_a_while_is_on_record_and_on_top_of_the_report(
    claimed: LustreProject,
) -> None:
    """The client waits for it. So the rate is wrong and yet valid, and a warning says why."""
    started = claimed.start("snakemake", "small")
    written = f"find {EXPORT}/{USER}/fsage/measured -type f -size +0 2>/dev/null | grep -q ."
    try:
        ssh(f"timeout 600 sh -c 'until {written}; do sleep 0.1; done' && {DROP.format('A')}", timeout=900)
        ssh("sleep 90")
    finally:
        ssh(DROP.format("D"))
    started.wait(timeout=900)
    (record,) = claimed.records().values()
    assert record["status"] == "valid", record["why"]
    warnings = "; ".join(record["warnings"])
    assert re.search(rf"NFS at {MOUNT}|nfs: server 127\.0\.0\.1", warnings), warnings
    (page,) = (claimed.root / "results").rglob("index.html")
    assert "1 of 1 valid samples has signs of trouble" in page.read_text()
