"""The device model: laid over a device, read back, holding its rate, undone; and controllers moved."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from session import PREFIX

from fsage.base import MIB, Failure, Refusal
from fsage.host import claiming
from fsage.host.instruments.cleanup import undo
from fsage.host.system import files, kernel, mounting, settings
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.layouts.machine import Mount, mounts
from fsage.studies.slowdisk.host import cgroups, iocost

Spec = dict[str, Any]
MODEL = {
    "kind": "iocost",
    "bytes_per_s": 100 * MIB,
    "sequential_iops": 20_000,
    "random_iops": 100,
    "allow_moving": [],
}

HYBRID = """#subsys_name\thierarchy\tnum_cgroups\tenabled
cpuset\t3\t1\t1
blkio\t7\t1\t1
memory\t4\t13\t1
net_cls\t0\t1\t1
net_prio\t0\t1\t0
hugetlb\t0\t1\t1
"""
LINGERING = HYBRID.replace("blkio\t7\t1", "blkio\t7\t4")


def v1(options: str) -> Mount:
    return Mount("0:35", "/", "/sys/fs/cgroup/blkio", "cgroup", "cgroup", "rw,nosuid,relatime", f"rw,{options}")


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ("blkio", "net_cls"),  # net_prio is switched off, hugetlb is what v2 has already
        ("blkio,memory", "memory"),
        ("xattr,blkio", "xattr,net_cls"),
        ("memory,blkio,name=both", "memory,name=both"),
    ],
)
def test_a_hierarchy_keeps_its_other_controllers(options, after):
    move = iocost.plan_move(HYBRID, [v1(options)], ["hugetlb"], [], lambda point: 0)
    assert move["before"] == options and move["after"] == after
    assert move["flags"] == 2 + (1 << 21) and move["mount"] == "/sys/fs/cgroup/blkio"


@pytest.mark.parametrize(
    ("table", "options", "groups", "message"),
    [
        (HYBRID.replace("blkio\t7\t1\t1", "blkio\t7\t1\t0"), "blkio", 0, "switched off"),
        (HYBRID.replace("blkio", "blk"), "memory", 0, "has no block I/O controller"),
        (HYBRID, "memory", 0, "is not mounted here"),
        (HYBRID.replace("net_cls\t0", "net_cls\t9"), "blkio", 0, "no free controller can take its place"),
        (LINGERING, "blkio", 3, r"3 groups of others use it; .*allow_moving: \[blkio\]"),
    ],
)
def test_what_foreign_groups_use_is_not_moved(table, options, groups, message):
    with pytest.raises(Refusal, match=message):
        iocost.plan_move(table, [v1(options)], ["hugetlb"], [], lambda point: groups)


@pytest.mark.parametrize(("allowed", "groups"), [([], 0), (["blkio"], 3)])
def test_groups_that_linger_after_they_were_removed_do_not_count_nor_others_where_that_is_allowed(allowed, groups):
    assert iocost.plan_move(LINGERING, [v1("blkio")], [], allowed, lambda point: groups)["after"] == "net_cls"


@pytest.mark.root
def test_a_hierarchy_is_remounted_once_the_kernel_has_let_go_of_its_groups(tmp_path, monkeypatch):
    """A hierarchy of cgroup v1 of this test's own, without a controller; while it has a group, it is busy."""
    point, options = str(tmp_path), f"none,name={PREFIX}waits"
    mounting.mount_call("cgroup", point, "cgroup", 0, options)
    group = tmp_path / "group"
    try:
        group.mkdir()
        assert iocost._below(point) == 1
        monkeypatch.setattr(iocost, "PUT_BACK_PATIENCE_S", 0.2)
        with pytest.raises(Failure, match="busy"):
            iocost._remount_when_idle(point, options, 0)
        monkeypatch.undo()
        goes = Timer(0.3, group.rmdir)
        began = time.monotonic()
        goes.start()
        iocost._remount_when_idle(point, options, 0)
        assert time.monotonic() - began > 0.2 and iocost._below(point) == 0
        goes.join()
    finally:
        if group.exists():
            group.rmdir()
        mounting.unmount(tmp_path)


@pytest.fixture
def device(new_target: Spec, alone_with_controllers: None) -> str:
    """A loop device of this test's own, where a model can be had."""
    if why := iocost.unavailable_because({}):
        pytest.skip(f"no device model here: {why}")
    return str(claim.create(new_target, {}, False)["devices"][0])


def place_of(spec: Spec) -> tuple[Path, str]:
    return Path(spec["home"]) / spec["name"], spec["name"]


def root() -> Path:
    found = cgroups.root()
    assert found
    return found


def controllers() -> tuple[list[str], list[str]]:
    """What belongs to everybody: the v1 hierarchies, and what v2 hands to its groups."""
    hierarchies = sorted(f"{m.point} {m.super_options}" for m in mounts() if m.type == "cgroup")
    return hierarchies, (root() / "cgroup.subtree_control").read_text().split()


def dying() -> int:
    words = dict(line.split() for line in (root() / "cgroup.stat").read_text().splitlines())
    return int(words.get("nr_dying_subsys_io", 0))


@pytest.mark.root
def test_put_read_back_and_undone(new_target, device):
    home, name = place_of(new_target)
    alone, before, dying_before = not cgroups.names(), controllers(), dying()
    placed = iocost.put(home, name, [device], MODEL)
    read = placed["read_back"][device]
    assert read["io.cost.qos"]["enable"] == "1" and read["io.cost.qos"]["rlat"] == "5000"
    assert read["io.cost.model"]["rbps"] == read["io.cost.model"]["wbps"] == str(100 * MIB)
    noted = files.read_json(settings.journal_of(home).path)
    assert [entry["kind"] for entry in noted["entries"]] == ["group", "cost"]
    assert iocost.put(home, name, [device], MODEL) == placed
    assert files.read_json(settings.journal_of(home).path) == noted
    iocost.put(home, name, [device], {**MODEL, "bytes_per_s": 50 * MIB})
    assert iocost._read_back([device])[device]["io.cost.model"]["rbps"] == str(50 * MIB)

    argv = ["fio", *claiming.FIO, *claiming.DIRECT, "--name=x", f"--filename={device}"]
    argv += ["--rw=write", "--bs=1M", "--size=64M"]
    group = cgroups.path_of(name)
    with cgroups.inside(group):
        inside = claiming._fio(argv, "write", 64 * MIB)
    assert inside > 1.1, "64 MiB at 50 MiB/s: never faster than the model; slower only where others load the machine"
    counted = (group / "io.stat").read_text()
    assert f" wbytes={64 * MIB} " in counted
    claiming._fio(argv, "write", 64 * MIB)
    assert (group / "io.stat").read_text() == counted, "what runs outside of the group is not charged"

    proof = claim.release(new_target, {}, False)["proof"]
    assert any("no cost model" in line for line in proof) and any("control group" in line for line in proof)
    assert f"{cgroups.PREFIX}{name}" not in cgroups.names() and not settings.journal_of(home).path.exists()
    assert iocost._read_back([device])[device]["io.cost.qos"].get("enable", "0") == "0"
    deadline = time.monotonic() + 10
    while dying() > dying_before:
        assert time.monotonic() < deadline, "the loop device's workers let go of the group"
        time.sleep(0.1)
    if alone:
        assert controllers() == before and not cgroups.SHARED.path.exists()
    else:
        assert "io" in controllers()[1], "another target needs it"


@pytest.mark.long
@pytest.mark.root
def test_the_controller_stays_while_another_target_has_its_group(new_target, device):
    home, name = place_of(new_target)
    alone, before = not cgroups.names(), controllers()
    other = home.with_name(f"{name}-other")
    iocost.put(home, name, [device], MODEL)
    iocost.put(other, f"{name}-other", [device], MODEL)
    undo(home)
    assert "io" in controllers()[1] and f"{cgroups.PREFIX}{name}-other" in cgroups.names()
    undo(other)
    if alone:
        assert controllers() == before and not cgroups.SHARED.path.exists()


@pytest.mark.root
def test_a_journal_of_what_was_never_done_is_undone_all_the_same(new_target, device):
    """Killed between the note and the deed."""
    home, name = place_of(new_target)
    journal = settings.journal_of(home)
    journal.note({"kind": "group", "path": str(root() / f"fsage-{name}")})
    for number in ("7:251", kernel.number_of(device)):
        journal.note({"kind": "cost", "device": number})
    assert len(undo(home)) == 3 and not journal.path.exists()


def test_a_reboot_voids_a_journal(tmp_path):
    journal = settings.journal_of(tmp_path)
    entry = {"kind": "group", "path": "/nonexistent"}
    files.write_json(journal.path, {"boot_id": "another", "entries": [entry]})
    assert journal.entries() == []
    journal.note(entry)
    journal.note(entry)
    assert journal.entries() == journal.entries("group") == [entry] and journal.entries("cost") == []
    journal.strike(entry)
    assert not journal.path.exists()


@pytest.mark.long
@pytest.mark.root
def test_a_group_with_processes_is_named(new_target, device, monkeypatch):
    monkeypatch.setattr(cgroups, "PATIENCE_S", 0.3)
    home, name = place_of(new_target)
    iocost.put(home, name, [device], MODEL)
    group = cgroups.path_of(name)
    before = cgroups.group_of(os.getpid(), group)
    with cgroups.inside(group):
        child = subprocess.Popen(["sleep", "60"])
    assert cgroups.group_of(os.getpid(), group) == before and cgroups.group_of(child.pid, group) == group
    with child:
        with pytest.raises(Failure, match=f"processes in it: {child.pid}"):
            undo(home)
        child.kill()
    undo(home)
    with pytest.raises(Failure, match=str(group)), cgroups.inside(group):
        pytest.fail("measured outside of a group that has gone")


@pytest.mark.long
@pytest.mark.root
def test_a_claim_with_a_model(new_target, device, monkeypatch):
    monkeypatch.setattr(claiming, "BACKING_MIB", 128)
    new_target["device_model"] = {"kind": "iocost", "bytes_per_s": 100 * MIB}
    ours = claim.claim(new_target, {}, False)["claim"]
    model, found = ours["device_model"], ours["calibration"]
    assert min(found["backing_read_mib_s"], found["backing_write_mib_s"]) > 140, (
        "this machine gives a disk of 100 MiB/s"
    )
    assert model["bytes_per_s"] == 100 * MIB and model["why_none"] is None
    assert model["label"].startswith("modelled device (IOCost, 100 MiB/s, ")
    assert max(found["write_mib_s"], found["read_mib_s"]) < 1.15 * 100
    target = open_target(new_target)
    with target.charged():
        assert cgroups.group_of(os.getpid(), cgroups.path_of(target.name)) == cgroups.path_of(target.name)
    placed = target.model_in_place()
    assert placed and placed["read_back"][device]["io.cost.qos"]["enable"] == "1"
    (root() / "io.cost.qos").write_text(f"{kernel.number_of(device)} enable=0")
    assert open_target(new_target).model_in_place() == placed, "put back in place by whoever opens the target"
    claim.release(new_target, {}, False)
    assert not any(name.endswith(new_target["name"]) for name in cgroups.names())
