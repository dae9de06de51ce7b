"""The device model `seek` on a real loop device: claimed, read back, killed, found again, ended."""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from local_targets import claimed, images_of

from fsage.base import MIB, Failure, Refusal
from fsage.host import claiming
from fsage.host.device import capabilities, loops
from fsage.host.system import files, mounting, settings
from fsage.host.system.library import BOOT, packed, sent
from fsage.host.targets import Target
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.layouts import machine
from fsage.studies.slowdisk.host import seek, seekdisk

pytestmark = pytest.mark.root
Spec = dict[str, Any]
SEEK_S = 0.004
PIECE = 64 << 10


@pytest.fixture(scope="module")
def spec(module_target: Spec) -> Iterator[Spec]:
    """A claimed target on a disk that charges for seeks."""
    if why := seek.Seek.unavailable_because({}):
        pytest.skip(why)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claiming, "BACKING_MIB", 64)
        module_target["device_model"] = {"kind": "seek", "bytes_per_s": 100 * MIB, "seek_s": SEEK_S}
        claimed(module_target)
        yield module_target


def server(target: Target) -> int:
    pid = seek.server_of(target.claim["stores"][0]["image"])
    assert pid
    return pid


def gone(target: Target) -> None:
    """Wait until nobody serves its disk."""
    while seek.server_of(target.claim["stores"][0]["image"]):
        time.sleep(0.01)


def seconds(path: Path, offsets: list[int], length: int) -> float:
    """What it takes to read `length` bytes at each offset, past the page cache."""
    buffer = mmap.mmap(-1, length)
    with open(os.open(path, os.O_RDONLY | os.O_DIRECT), "rb", buffering=0) as file:
        began = time.monotonic()
        for offset in offsets:
            assert os.preadv(file.fileno(), [buffer], offset) == length
        return time.monotonic() - began


@pytest.mark.long
def test_scattered_reads_pay_for_their_seeks_and_sequential_ones_for_their_bytes(spec):
    target = open_target(spec)
    file, total = target.mounts[0] / "file", 32 * MIB
    file.write_bytes(bytes(total))
    os.sync()
    target.remount()
    rate = target.claim["device_model"]["bytes_per_s"]
    assert rate <= 100 * MIB
    backwards = list(range(total - PIECE, 0, -2 * PIECE))[:100]
    assert seconds(file, backwards, PIECE) >= 99 * (SEEK_S + PIECE / rate)
    in_order = seconds(file, list(range(0, total, MIB)), MIB)
    assert total / rate * 0.95 < in_order, "never faster than the model"
    assert in_order < total / PIECE * SEEK_S, "seeks are not charged where there are none"
    file.unlink()


def test_it_is_claimed_labelled_and_read_back_from_what_runs(spec):
    target = open_target(spec)
    ours, (device,) = target.claim["device_model"], target.devices
    assert ours["label"].startswith("modelled device (a disk that charges for seeks, ") and ours["kind"] == "seek"
    assert ours["label"].endswith("4 ms a seek)") and ours["why_none"] is None
    placed = target.model_in_place()
    charged = asdict(seekdisk.Costs(ours["bytes_per_s"], SEEK_S))
    assert placed == {**ours, "read_back": {device: charged}}
    assert target.notes == [] and target.front() == []
    info = machine.loop_info(device)
    assert info and info.flags & loops.LO_FLAGS_DIRECT_IO and info.inode == seekdisk.DISK
    assert not loops.devices_of(target.claim["stores"][0]["image_id"]), "nothing goes past the disk"
    pid = server(target)
    assert not claim.claim(spec, {}, False)["changed"] and not claim.create(spec, {}, False)["changed"]
    target.format()
    assert server(open_target(spec)) == pid


def test_a_disk_that_was_killed_is_started_again_and_what_was_synced_is_there(spec):
    target = open_target(spec)
    kept = target.mounts[0] / "kept"
    kept.write_bytes(b"x" * MIB)
    os.sync()
    os.kill(server(target), signal.SIGKILL)
    gone(target)
    with pytest.raises((Failure, Refusal), match="give the same command again"):
        target.model_in_place()
    again = open_target(spec)
    assert any("attached" in note for note in again.notes) and kept.read_bytes() == b"x" * MIB
    assert again.model_in_place() is not None and len(again.devices) == 1
    kept.unlink()


@pytest.mark.long
def test_a_disk_outlives_an_agent_that_runs_from_memory(spec):
    """As on a host to which the agent comes over the connection."""
    target = open_target(spec)
    os.kill(server(target), signal.SIGKILL)
    gone(target)
    start = BOOT + "from fsage.host.__main__ import main; sys.exit(main(sys.argv[1:]))"
    argv = [sys.executable, "-I", "-S", "-c", start, "diagnose"]
    said = sent(packed()) + json.dumps({"target": spec}).encode()
    done = subprocess.run(argv, input=said, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert server(target) and open_target(spec).notes == []


def test_after_a_reboot_it_is_put_back(spec):
    target = open_target(spec)
    point = seek.point_of(target.claim["stores"][0])
    loops.take_away(seek.MODEL.disks(target.home)[0])
    mounting.unmount(point)
    gone(target)
    files.write_json(settings.journal_of(target.home).path, {"boot_id": "before", "entries": []})
    assert claim.create(spec, {}, True)["changed"] and claim.create(spec, {}, False)["changed"]
    assert len(open_target(spec).notes) == 1


def test_who_is_not_the_claimed_disk_is_refused_and_left_alone(spec, tmp_path):
    target = open_target(spec)
    store = target.claim["stores"][0]
    point = seek.point_of(store)
    loops.take_away(seek.MODEL.disks(target.home)[0])
    mounting.unmount(point)
    mounting.mount_call("none", str(point), "tmpfs", 0, "")
    with pytest.raises(Refusal, match=r"none \(tmpfs\) is mounted there, which is not fsage's"):
        open_target(spec)
    mounting.unmount(point)
    gone(target)
    for where, costs in ((point, seekdisk.Costs(9e9, 0.001)), (tmp_path, seekdisk.Costs(1e8, SEEK_S))):
        argv = [store["image"], str(where), json.dumps(asdict(costs))]
        subprocess.run([sys.executable, "-m", seek.MODULE, *argv], check=True)
        with pytest.raises(Refusal, match=r"process \d+ \(.*\) holds .*, but is not the disk that the claim"):
            open_target(spec)
        mounting.unmount(where)
        gone(target)
    open_target(spec)


def test_a_disk_that_no_claim_knows_is_ended_by_the_journal(spec):
    """The command that started it was killed before it could say so."""
    target = open_target(spec)
    pid, store = server(target), target.claim["stores"][0]
    files.remove(target.home / "claim.json")
    proof = claim.release(spec, {}, False)["proof"]
    assert f"no disk is offered at {seek.point_of(store)}, and no process serves {store['image']}" in proof
    assert not Path(f"/proc/{pid}/exe").exists() and not seek.point_of(store).exists()
    assert not loops.devices_of(images_of(spec)[0]) and not claim.release(spec, {}, False)["changed"]


def test_without_fuse_it_says_so_and_claims_nothing(spec, monkeypatch):
    monkeypatch.setattr(seekdisk, "FUSE", "/dev/no-such-fuse")
    monkeypatch.setattr(capabilities, "_tried", capabilities._tried.__wrapped__)  # not what was tried before
    home = Path(spec["home"]) / spec["name"]
    for check in (True, False):
        with pytest.raises(Refusal, match=r"needs FUSE on .*: /dev/no-such-fuse: No such file .*modprobe fuse"):
            claim.claim(spec, {}, check)
    assert not (home / "claim.json").exists() and not settings.journal_of(home).path.exists()
