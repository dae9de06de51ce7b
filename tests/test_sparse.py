"""Targets that are larger than the disk: a sparse image in an XFS that fsage makes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from local_targets import Spec, claim_file, claimed, take_down
from tiers import first_of

from fsage.host.claiming import images
from fsage.host.device import below, loops
from fsage.host.system import files, mounting
from fsage.host.system.shell import run
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim, create, recover
from fsage.model import declaration, sparse
from fsage.model.declaration import GIB, MIB
from fsage.model.errors import Refusal

pytestmark = pytest.mark.root
TIB_17 = 17 << 10  # GiB: ext4 allows a file 16 TiB


@pytest.fixture
def large(new_target: Spec) -> Spec:
    """A target of 17 TiB."""
    return {**new_target, "size_gib": TIB_17, "sparse": True, "amount_mib": 64}


def noted(spec: Spec) -> dict:
    return files.read_json(claim_file(spec).parent / "images.json")


def unmount_below(spec: Spec) -> None:
    home = claim_file(spec).parent
    for image in images.located(home, noted(spec))["images"]:
        loops.detach(images.whole(image))
    mounting.unmount(below.point_of(home))
    loops.detach(below.image(noted(spec)))


@pytest.mark.parametrize("filesystem", first_of("xfs", "ext4"))
def test_life_of_a_target_larger_than_the_disk(large: Spec, filesystem: str) -> None:
    large["filesystem"] = filesystem
    taken = sparse.takes(declaration.complete(large))
    assert taken.words() in create.create(large, {}, True)["msg"] and not Path(large["image_dir"]).exists()
    create.create(large, {}, False)
    [pool] = Path(large["image_dir"]).iterdir()
    assert pool.stat().st_size == taken.total_bytes <= pool.stat().st_blocks * 512, "all its blocks are given before"

    target = claimed(large)
    assert target.capacity_bytes > 0.98 * TIB_17 * GIB and ("noinit_itable" in target.mount_options()[0]) == (
        filesystem == "ext4"
    )
    path = target.mounts[0] / "large"
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 8 << 40)
    room_bytes = below.room_bytes(target.home)
    run(["dd", "if=/dev/zero", f"of={path}", "bs=1M", "count=64", "oflag=direct", "conv=notrunc,fsync"])
    assert abs(room_bytes - below.room_bytes(target.home) - 64 * MIB) < MIB, "what is written takes room"
    target.format()
    assert below.room_bytes(target.home) > room_bytes - 16 * MIB, "and is given back"

    # as after a reboot: the XFS below gets another device number
    take_down(target)
    unmount_below(large)
    holder = Path(large["home"]) / "holder"
    holder.write_bytes(bytes(MIB))
    device = run(["losetup", "--find", "--show", str(holder)]).stdout.strip()
    try:
        assert create.create(large, {}, True)["changed"]
        again = open_target(large)
        assert len(again.notes) == 3 and open_target(large).notes == []
        assert recover.recover(large, {}, False)["changed"]
        assert not loops.devices_of(below.image(noted(large))), "nothing stays attached after a run"
        open_target(large)
    finally:
        run(["losetup", "--detach", device])

    released = claim.release(large, {}, False)
    assert any(sentence.endswith("takes no room") for sentence in released["proof"])
    assert not loops.devices_of(below.image(noted(large))) and not mounting.mounted_at(below.point_of(target.home))
    assert not claim.release(large, {}, False)["changed"]
    assert create.create(large, {}, False)["changed"], "the image is still there"
    assert f"{pool} is gone" in create.remove(large, {}, False)["proof"] and not Path(large["image_dir"]).exists()


def test_refused_where_the_disk_holds_less_than_it_takes(large: Spec) -> None:
    free = shutil.disk_usage("/var/tmp").free
    large["amount_mib"] = free // MIB
    with pytest.raises(Refusal, match=r"takes [\d.]+ GiB below: .* has [\d.]+ GiB free, and half"):
        create.create(large, {}, False)
    assert not Path(large["image_dir"]).exists() and not (claim_file(large).parent / "images.json").exists()


@pytest.mark.parametrize("killed", ["before the file", "in the file", "before mkfs", "before the image"])
def test_a_creation_that_was_killed_is_finished(large: Spec, killed: str) -> None:
    create.create(large, {}, False)
    home, now = claim_file(large).parent, noted(large)
    for image in now["images"]:
        loops.detach({**image, "dev": below.number(home)})
        image["status"] = "planned"
    if killed != "before the image":
        mounting.unmount(below.point_of(home))
        [device] = loops.devices_of(below.image(now))
        mounting.wipe(device)
        loops.detach(below.image(now))
    if killed in ("before the file", "in the file"):
        now["below"]["status"] = "planned"
        os.truncate(now["below"]["image"], MIB)
    if killed == "before the file":
        os.unlink(now["below"]["image"])
    files.write_json(home / "images.json", now)
    with pytest.raises(Refusal, match="has not been created"):
        claim.claim(large, {}, False)
    assert create.create(large, {}, False)["changed"] and not create.create(large, {}, False)["changed"]


def test_another_file_in_its_place_is_refused(large: Spec) -> None:
    target = claimed(large)
    take_down(target)
    unmount_below(large)
    pool = below.image(noted(large))
    os.rename(pool["image"], f"{pool['image']}.kept")
    Path(pool["image"]).write_bytes(b"")
    with pytest.raises(Refusal, match="is another file now"):
        open_target(large)
    os.rename(f"{pool['image']}.kept", pool["image"])
    assert open_target(large).devices
