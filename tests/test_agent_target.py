"""Local targets on real loop devices: create, claim, open, format, remount, release; and the refusals."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fsage.agent import claim, files, filesystems, images, lease
from fsage.agent.declaration import GIB, MIB
from fsage.agent.device import loops
from fsage.agent.errors import Failure, Refusal
from fsage.agent.shell import run
from fsage.agent.target import Target, open_target

Spec = dict[str, Any]
root = pytest.mark.root
SOURCE = Path(__file__).parents[1] / "src"


def claimed(spec: Spec) -> Target:
    images.create(spec, {}, False)
    claim.claim(spec, {}, False)
    return open_target(spec)


def claim_file(spec: Spec) -> Path:
    return Path(spec["home"]) / spec["name"] / "claim.json"


def take_down(target: Target) -> None:
    """As after a reboot: not mounted, no loop devices."""
    for point in target.mounts:
        filesystems.unmount(point)
    for device in target.devices:
        run(["losetup", "--detach", device])


@contextlib.contextmanager
def untouched(spec: Spec) -> Iterator[None]:
    """Whatever happens inside, the claim, the UUIDs and the files of the target are the same afterwards."""

    def look() -> Any:
        target = Target(files.read_json(claim_file(spec)) and spec, files.read_json(claim_file(spec)))
        uuids = [filesystems.uuid_on(d) for s in target.claim["stores"] for d in loops.devices_of(s["image_id"])]
        inside = [sorted(p.name for p in point.iterdir()) for point in target.mounts if point.is_dir()]
        return files.read_json(claim_file(spec)), uuids, inside, [str(m) for m in filesystems.mounts()]

    before = look()
    yield
    assert look() == before


@root
@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
def test_life_of_a_target(local_target: Spec, filesystem: str) -> None:
    local_target["filesystem"] = filesystem
    made = images.create(local_target, {}, False)
    assert made["changed"] and not images.create(local_target, {}, False)["changed"]
    image = made["images"][0]
    assert image["bytes"] == GIB and os.stat(image["image"]).st_blocks * 512 >= GIB, "written, not sparse"

    first = claim.claim(local_target, {}, False)
    assert first["changed"] and not claim.claim(local_target, {}, False)["changed"]
    ours = first["claim"]
    assert ours["phase"] == "claimed" and ours["amount_mib"] == 64 and ours["amount_source"] == "declared"
    assert ours["calibration"]["write_mib_s"] > 0 and ours["calibration"]["pair_s"] > 0
    assert 0.85 * GIB < ours["capacity_bytes"] <= GIB and ours["filesystem_state_known"]
    assert ours["device_model"] == {"kind": "none", "label": "no device model", "why_none": "not declared"}

    target = open_target(local_target)
    assert target.notes == [] and target.under_model() == [] and target.model_in_place() is None
    stat = os.statvfs(target.mounts[0])
    assert abs(target.capacity_bytes - stat.f_bfree * stat.f_frsize) < MIB
    assert loops.loop_info(target.devices[0]).flags & loops.LO_FLAGS_DIRECT_IO
    assert not {"discard", "discard=async"} & set(filesystems.mounted_at(target.mounts[0]).options.split(","))

    (target.mounts[0] / "filler").mkdir()
    before = target.claim["stores"][0]["uuids"]
    target.remount()
    assert (target.mounts[0] / "filler").is_dir()
    target.format()
    after = files.read_json(claim_file(local_target))["stores"][0]["uuids"]
    assert after != before and len(after) == 1
    assert filesystems.uuid_mounted(target.mounts[0]) in (after[0], None)
    assert filesystems.uuid_on(target.devices[0]) == after[0]
    assert sorted(p.name for p in target.mounts[0].iterdir() if p.name != "lost+found") == [".fsage"]
    assert open_target(local_target).notes == []

    released = claim.release(local_target, {}, False)
    assert released["changed"] and len(released["proof"]) >= 3
    assert not claim.release(local_target, {}, False)["changed"]
    assert not loops.devices_of(image) and Path(image["image"]).exists()
    with pytest.raises(Refusal, match="has not been claimed"):
        open_target(local_target)
    claim.claim(local_target, {}, False)  # the images are still there
    assert images.remove(local_target, {}, False)["changed"]
    assert not Path(image["image"]).exists() and not images.remove(local_target, {}, False)["changed"]


@root
def test_several_stores(local_target: Spec) -> None:
    local_target |= {"stores": 3, "scale": {"tasks": 3}, "amount_mib": 16}
    target = claimed(local_target)
    assert len(set(target.devices)) == len(set(target.mounts)) == 3 and target.claim["tasks"] == 3
    assert [json.loads((m / ".fsage/claim.json").read_text())["store"] for m in target.mounts] == [0, 1, 2]
    free = sum(os.statvfs(m).f_bfree * os.statvfs(m).f_frsize for m in target.mounts)
    assert abs(free - target.capacity_bytes) < MIB
    (target.mounts[2] / "filler").mkdir()
    target.format()
    target.remount()
    assert not (target.mounts[2] / "filler").exists()


@root
def test_placement_repeats_after_a_remount(local_target: Spec) -> None:
    """What the allocator reset is for: a file that is made again gets the same place."""
    target = claimed(local_target)
    places = []
    for _ in range(3):
        target.remount()
        path = target.mounts[0] / "measured.0"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(descriptor, 0, 64 * MIB)
        os.close(descriptor)
        places.append(run(["filefrag", "-e", str(path)]).stdout.splitlines()[3])
        path.unlink()
        os.sync()
    assert len(set(places)) == 1


@root
def test_after_a_reboot_everything_is_put_back(local_target: Spec) -> None:
    target = claimed(local_target)
    take_down(target)
    again = open_target(local_target)
    assert len(again.notes) == 2 and filesystems.mounted_at(again.mounts[0])
    take_down(again)
    assert images.create(local_target, {}, False)["changed"]
    assert claim.claim(local_target, {}, False)["changed"]


@root
def test_check_changes_nothing(local_target: Spec) -> None:
    assert images.create(local_target, {}, True)["changed"]
    assert not Path(local_target["image_dir"]).exists() and not Path(local_target["home"]).exists()
    images.create(local_target, {}, False)
    assert claim.claim(local_target, {}, True)["changed"] and not claim_file(local_target).exists()
    claim.claim(local_target, {}, False)
    with untouched(local_target):
        assert claim.release(local_target, {}, True)["changed"]
        assert images.remove(local_target, {}, True)["changed"]


@contextlib.contextmanager
def backing_of(filesystem: str, tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 GiB on a loop device, for images to lie on."""
    backing, point = tmp_path / "backing.img", tmp_path / "backing"
    backing.touch()
    os.truncate(backing, 3 * GIB)
    run([f"mkfs.{filesystem}", "-q", str(backing)])
    point.mkdir()
    device = run(["losetup", "--find", "--show", str(backing)]).stdout.strip()
    try:
        filesystems.mount(filesystem, device, point)
        yield point
    finally:
        filesystems.unmount(point)
        run(["losetup", "--detach", device])


@root
def test_size_follows_the_free_space(local_target: Spec, tmp_path: Path) -> None:
    with backing_of("ext4", tmp_path) as small:
        local_target |= {"image_dir": str(small / "images"), "size_gib": 16}
        assert "1 x 1 GiB" in images.create(local_target, {}, True)["msg"]
        with pytest.raises(Refusal, match=r"GiB free, and half of it, .* is less than fsage_target.minimum_gib, 2"):
            images.create({**local_target, "minimum_gib": 2}, {}, False)
        assert not (small / "images").exists()


@root
def test_a_backing_store_that_copies_on_write_is_told_not_to(local_target: Spec, tmp_path: Path) -> None:
    with backing_of("btrfs", tmp_path) as store:
        local_target["image_dir"] = str(store / "images")
        made = images.create(local_target, {}, False)
        (image,) = made["images"]
        assert image["nocow"] and "chattr +C" in made["msg"]
        assert "C" in run(["lsattr", image["image"]]).stdout.split()[0]
        images.remove(local_target, {}, False)


@root
def test_memory_is_no_place_for_images(local_target: Spec) -> None:
    with pytest.raises(Refusal, match=r"/dev/shm is on tmpfs, which is memory, not a disk.*fsage_target.image_dir"):
        images.create({**local_target, "image_dir": "/dev/shm"}, {}, False)


@root
def test_what_is_not_created_cannot_be_claimed(local_target: Spec) -> None:
    with pytest.raises(Refusal, match="has not been created"):
        claim.claim(local_target, {}, False)
    with pytest.raises(Refusal, match="has not been claimed"):
        open_target(local_target)
    assert not claim_file(local_target).exists()


@root
def test_a_changed_declaration_is_refused(local_target: Spec) -> None:
    claimed(local_target)
    with untouched(local_target):
        with pytest.raises(Refusal, match="claimed with filesystem ext4, and xfs is declared now"):
            open_target({**local_target, "filesystem": "xfs"})
        with pytest.raises(Refusal, match="claimed with stores 1, and 2 is declared now"):
            open_target({**local_target, "stores": 2})
        with pytest.raises(Refusal, match="was created as"):
            images.create({**local_target, "size_gib": 2}, {}, False)


@root
def test_another_image_of_the_same_name_is_refused(local_target: Spec) -> None:
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
        claim.claim(local_target, {}, False)
    removed = images.remove(local_target, {}, False)
    assert removed["left"] == [str(path)] and path.read_bytes() == b"a user's own file"
    assert not claim_file(local_target).exists()


@root
def test_another_uuid_is_refused_and_named(local_target: Spec) -> None:
    target = claimed(local_target)
    ours, theirs = target.claim["stores"][0]["uuids"][0], str(uuid.uuid4())
    filesystems.unmount(target.mounts[0])
    filesystems.make("ext4", target.devices[0], theirs, claim.HASH_SEED)
    with untouched(local_target), pytest.raises(Refusal, match=f"{theirs}, not the claimed {ours}"):
        open_target(local_target)
    with pytest.raises(Refusal, match="nothing was touched"):
        claim.claim(local_target, {}, False)
    claim.release(local_target, {}, False)
    assert filesystems.uuid_on(loops.attach(images_of(local_target)[0])) == theirs, "not fsage's to wipe"


def images_of(spec: Spec) -> list[dict[str, Any]]:
    return list(files.read_json(claim_file(spec).parent / "images.json")["images"])


@root
def test_an_occupied_mount_point_is_refused(local_target: Spec, tmp_path: Path) -> None:
    target = claimed(local_target)
    point = target.mounts[0]
    filesystems.unmount(point)
    (point / "precious").write_text("x")
    with pytest.raises(Refusal, match="not empty"):
        open_target(local_target)
    (point / "precious").unlink()
    filesystems.mount_call("none", str(point), "tmpfs", 0, "")
    with untouched(local_target):
        with pytest.raises(Refusal, match=r"tmpfs.* is mounted there, not /dev/loop"):
            open_target(local_target)
        with pytest.raises(Refusal, match="is mounted there"):
            target.format()
    filesystems.unmount(point)
    open_target(local_target)


@root
def test_a_mount_pinned_by_another_namespace_is_noticed(local_target: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    """umount succeeds, mkfs says "in use", and the next mount would bring the old file system back."""
    monkeypatch.setattr(filesystems, "PATIENCE_S", 0.3)
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
            claim.release(local_target, {}, False)
        assert files.read_json(claim_file(local_target))["stores"][0]["uuids"] == ours
    finally:
        holder.kill()
        holder.wait()
    claim.release(local_target, {}, False)
    claim.claim(local_target, {}, False)


@root
@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
@pytest.mark.parametrize("killed", ["before mkfs", "in mkfs", "after mkfs"])
def test_a_format_that_was_killed(local_target: Spec, filesystem: str, killed: str) -> None:
    local_target["filesystem"] = filesystem
    target = claimed(local_target)
    (target.mounts[0] / "filler").mkdir()
    current, following = target.claim["stores"][0]["uuids"][0], str(uuid.uuid4())
    filesystems.unmount(target.mounts[0])
    target.claim["stores"][0]["uuids"] = [current, following]
    target.save()
    if killed == "in mkfs":
        run(["wipefs", "--all", "--quiet", target.devices[0]])
    elif killed == "after mkfs":
        filesystems.make(filesystem, target.devices[0], following, claim.HASH_SEED)
    again = open_target(local_target)
    assert again.claim["stores"][0]["uuids"] == [current if killed == "before mkfs" else following]
    assert (again.mounts[0] / "filler").exists() == (killed == "before mkfs")
    assert (again.mounts[0] / ".fsage/claim.json").exists()
    assert open_target(local_target).notes == []


@root
def test_a_claim_killed_anywhere_is_finished_or_removed(local_target: Spec) -> None:
    images.create(local_target, {}, False)
    given = json.dumps({"target": local_target})
    for tenths in range(1, 9):
        with subprocess.Popen(
            [sys.executable, "-m", "fsage.agent", "claim"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        ) as process:
            process.stdin.write(given)
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(tenths / 10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
        known = files.read_json(claim_file(local_target))
        if known and known["phase"] != "claimed":
            with pytest.raises(Refusal, match="interrupted"):
                open_target(local_target)
        if tenths % 3 == 0:
            images.remove(local_target, {}, False)
            assert not claim_file(local_target).exists()
            images.create(local_target, {}, False)
        if tenths % 4 == 0:
            claim.claim(local_target, {}, False)
            open_target(local_target)
            claim.release(local_target, {}, False)


@root
def test_a_creation_that_was_killed_is_made_anew(local_target: Spec) -> None:
    images.create(local_target, {}, False)
    journal = claim_file(local_target).parent / "images.json"
    known = files.read_json(journal)
    image = known["images"][0]
    loops.detach(image)
    half = {key: image[key] for key in ("image", "bytes")} | {"phase": "planned"}
    files.write_json(journal, {**known, "images": [half]})
    os.truncate(image["image"], MIB)
    with pytest.raises(Refusal, match="has not been created"):
        claim.claim(local_target, {}, False)
    assert images.create(local_target, {}, False)["changed"]
    assert os.stat(image["image"]).st_size == GIB
    files.write_json(journal, {**known, "images": [half]})
    loops.detach(images_of(local_target)[0] | loops.identity(image["image"]))
    images.remove(local_target, {}, False)
    assert not Path(image["image"]).exists()


@root
def test_devices_in_use_are_never_touched(local_target: Spec) -> None:
    target = claimed(local_target)
    with pytest.raises(Refusal, match=f"is mounted at {target.mounts[0]}"):
        filesystems.refuse_if_in_use(target.devices[0])
    filesystems.unmount(target.mounts[0])
    descriptor = os.open(target.devices[0], os.O_RDONLY | os.O_EXCL)
    with pytest.raises(Refusal, match="in use"):
        filesystems.refuse_if_in_use(target.devices[0])
    os.close(descriptor)
    filesystems.refuse_if_in_use(target.devices[0])
    number = os.stat("/").st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
    if Path(f"/dev/{device}").exists():
        with pytest.raises(Refusal, match="holds the root file system"):
            filesystems.refuse_if_in_use(f"/dev/{device}")
    run(["mkswap", target.devices[0]])
    if subprocess.run(["swapon", target.devices[0]], check=False).returncode == 0:
        try:
            with pytest.raises(Refusal, match="is swapped to"):
                filesystems.refuse_if_in_use(target.devices[0])
        finally:
            run(["swapoff", target.devices[0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"filesytem": "ext4"}, "no key 'filesytem'; did you mean 'filesystem'"),
        ({"filesystem": "ext5"}, "'ext5': allowed are ext4, xfs, btrfs"),
        ({"name": "../etc"}, "name is '../etc'"),
        ({"stores": 0}, "stores is 0: a positive whole number"),
        ({"size_gib": "16"}, "size_gib is '16'"),
        ({"amount_mib": 0.5}, "amount_mib is 0.5"),
        ({"device_model": {"bytes_per_second": 1}}, "did you mean 'bytes_per_s'"),
        ({"device_model": {"kind": "flakey"}}, "'flakey': allowed are iocost, seek"),
        ({"device_model": {"kind": "seek", "random_iops": 1}}, "has no key 'random_iops'"),
        ({"device_model": {"kind": "seek", "seek_s": 0}}, "seek_s is 0: a positive number"),
    ],
)
def test_a_wrong_declaration_is_refused(change: Spec, message: str, tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=message):
        images.create({"name": "local", "home": str(tmp_path / "home"), **change}, {}, False)
    assert not (tmp_path / "home").exists()


@root
def test_a_device_that_somebody_looks_at_for_a_moment_is_mounted_after_it(local_target: Spec) -> None:
    target = claimed(local_target)
    [device], [point] = target.devices, target.mounts
    filesystems.unmount(point)
    held = os.open(device, os.O_RDWR | os.O_EXCL)
    moment = threading.Timer(0.5, os.close, [held])
    moment.start()
    filesystems.mount("ext4", device, point)
    moment.join()
    assert filesystems.mounted_at(point)


@root
def test_a_target_that_a_run_holds_is_not_released(local_target: Spec) -> None:
    target = claimed(local_target)
    holder = {
        "run": "another",
        "host": os.uname().nodename,
        "machine": lease.machine(),
        "pid": os.getpid(),
        "pid_start": lease.start_of(os.getpid()),
        "command": "snakemake series1",
        "since": files.utc_now(),
    }
    lease.take(target.home, {"holder": holder})
    with untouched(local_target):
        for verb in (images.create, images.remove, claim.claim, claim.release):
            with pytest.raises(Refusal, match=r"is held by run another .*snakemake series1"):
                verb(local_target, {}, False)
    assert claim.release(local_target, {"holder": holder}, False)["changed"]
    lease.drop(target.home, {"holder": holder})
