"""What is no target of fsage's, or not now, is refused in a sentence, and nothing is touched."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from local_targets import claim, claim_file, claimed, create, images_of, release, remove, take_down, untouched
from measuring import holder

from fsage.base import Failure, Refusal
from fsage.base.shell import run
from fsage.host import filesystems, states
from fsage.host.device import loops
from fsage.host.kinds import loop
from fsage.host.system import files, mounting
from fsage.host.targets import lease
from fsage.host.targets.opening import open_target
from fsage.layouts import machine

root = pytest.mark.root


@root
def test_another_image_of_the_same_name_is_refused(local_target):
    target = claimed(local_target)
    take_down(target)
    path = Path(target.claim["stores"][0]["image"])
    path.rename(path.with_suffix(".old"))
    with pytest.raises(Refusal, match=r"is missing.*fsage_local_target_state=absent"):
        open_target(local_target)
    path.write_bytes(b"a user's own file")
    with (
        untouched(local_target),
        pytest.raises(Refusal, match=r"is another file now.*fsage_local_target_state=absent"),
    ):
        open_target(local_target)
    with pytest.raises(Refusal, match="is another file now"):
        claim(local_target)
    removed = remove(local_target)
    assert removed["left"] == [str(path)] and path.read_bytes() == b"a user's own file"
    assert not claim_file(local_target).exists()


@root
def test_another_uuid_is_refused_and_named(local_target):
    target = claimed(local_target)
    ours, theirs = target.claim["stores"][0]["uuids"][0], str(uuid.uuid4())
    mounting.unmount(target.mounts[0])
    filesystems.make("ext4", target.devices[0], theirs, loop.HASH_SEED)
    with untouched(local_target), pytest.raises(Refusal, match=f"{theirs}, not the claimed {ours}"):
        open_target(local_target)
    with pytest.raises(Refusal, match="nothing was touched"):
        claim(local_target)
    release(local_target)
    assert mounting.uuid_on(loops.attach(images_of(local_target)[0])) == theirs, "not fsage's to wipe"


@root
def test_an_occupied_mount_point_is_refused(local_target, tmp_path):
    target = claimed(local_target)
    point = target.mounts[0]
    mounting.unmount(point)
    (point / "precious").write_text("x")
    with pytest.raises(Refusal, match="not empty"):
        open_target(local_target)
    (point / "precious").unlink()
    mounting.mount_call("none", str(point), "tmpfs", 0, "")
    with untouched(local_target):
        with pytest.raises(Refusal, match=r"tmpfs.* is mounted there, not /dev/loop"):
            open_target(local_target)
        with pytest.raises(Refusal, match="is mounted there"):
            target.format()
    mounting.unmount(point)
    open_target(local_target)


@pytest.mark.long
@root
@pytest.mark.unshare
def test_a_mount_pinned_by_another_namespace_is_noticed(local_target, monkeypatch):
    """umount succeeds, mkfs says "in use", and the next mount would bring the old file system back."""
    monkeypatch.setattr(mounting, "PATIENCE_S", 0.3)
    target = claimed(local_target)
    (target.mounts[0] / "filler").mkdir()
    holder = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sleep", "60"])
    try:
        while os.readlink(f"/proc/{holder.pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
            time.sleep(0.01)
        ours = target.claim["stores"][0]["uuids"]
        with pytest.raises(Refusal, match=rf"another mount namespace holds it, that of process {holder.pid} \("):
            target.format()
        with pytest.raises(Refusal, match="another mount namespace"):
            target.remount()
        with pytest.raises((Refusal, Failure), match="namespace"):
            release(local_target)
        assert files.read_json(claim_file(local_target))["stores"][0]["uuids"] == ours
    finally:
        holder.kill()
        holder.wait()
    release(local_target)
    claim(local_target)


@root
def test_devices_in_use_are_never_touched(local_target, tmp_path, monkeypatch):
    target = claimed(local_target)
    [device] = target.devices
    swaps = tmp_path / "swaps"
    (tmp_path / "a link").symlink_to(device)
    swaps.write_bytes(b"Filename Type\n/\xe9 file\n%s partition\n" % bytes(tmp_path / "a link").replace(b" ", rb"\040"))
    with monkeypatch.context() as named, pytest.raises(Refusal, match="is swapped to"):
        named.setattr(mounting, "SWAPS", swaps)
        mounting.refuse_if_in_use(device)

    def refused(why: str, of: str = device) -> None:
        with pytest.raises(Refusal, match=why):
            mounting.refuse_if_in_use(of)

    refused(f"is mounted at {target.mounts[0]}")
    mounting.unmount(target.mounts[0])
    descriptor = os.open(device, os.O_RDONLY | os.O_EXCL)
    refused("in use")
    os.close(descriptor)
    mounting.refuse_if_in_use(device)
    number = os.stat("/").st_dev
    of_root = Path("/dev", Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name)
    if of_root.exists():
        refused("holds the root file system", str(of_root))
    run(["mkswap", device])
    if subprocess.run(["swapon", device], check=False).returncode == 0:
        try:
            refused("is swapped to")
        finally:
            run(["swapoff", device])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"filesytem": "ext4"}, "no key 'filesytem'; did you mean 'filesystem'"),
        ({"scale": {5: 1}}, "scale has no key 5"),
        ({"filesystem": "ext5"}, "'ext5': allowed are btrfs, ext4, xfs"),
        ({"name": "../etc"}, "name is '../etc'"),
        ({"stores": 0}, "stores is 0: a positive whole number"),
        ({"amount_mib": 0.5}, "amount_mib is 0.5"),
        ({"device_model": {"kind": "flakey"}}, "'flakey': allowed are iocost, seek"),
        ({"device_model": {"kind": "seek", "random_iops": 1}}, "has no key 'random_iops'"),
    ],
)
def test_a_wrong_declaration_is_refused(change, message, tmp_path):
    with pytest.raises(Refusal, match=message):
        create({"name": "local", "home": str(tmp_path / "home"), **change})
    assert not (tmp_path / "home").exists()


@root
def test_a_target_that_a_run_holds_is_not_released(local_target):
    target = claimed(local_target)
    run = holder(run="another")
    lease.take(target.home, run)
    held_by = r"is held by run another .*snakemake"
    with untouched(local_target):
        for verb in (create, remove, claim, release):
            with pytest.raises(Refusal, match=held_by):
                verb(local_target)
    mounting.unmount(target.mounts[0])  # as the run does before it mounts it anew
    with pytest.raises(Refusal, match=held_by):
        states.scrub(local_target, {"steps": [], "state": "empty"}, False)
    assert machine.mounted_at(target.mounts[0]) is None, "nobody else mounts it meanwhile"
    assert release(local_target, run=run)["changed"]
    lease.drop(target.home, run)
