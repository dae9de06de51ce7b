"""Local targets on real loop devices: create, claim, open, format, remount, release."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from local_targets import claim, claim_file, claimed, create, release, remove, untouched, written
from small_filesystems import small
from tiers import first_of

from fsage.base import GIB, MIB, Refusal
from fsage.base.shell import run
from fsage.host import filesystems
from fsage.host.device import loops
from fsage.host.system import files, mounting
from fsage.host.targets.opening import open_target
from fsage.layouts import machine
from fsage.model import filesystems as known

pytestmark = pytest.mark.root


@pytest.mark.parametrize("filesystem", first_of("ext4", *sorted({*known.names()} - {"ext4"})))
def test_life_of_a_target(new_target, filesystem):
    new_target["filesystem"] = filesystem
    made = create(new_target)
    assert made["changed"] and not create(new_target)["changed"]
    [image] = made["images"]
    assert image["bytes"] == GIB and os.stat(image["image"]).st_blocks * 512 >= GIB, "written, not sparse"

    for verb in (claim, create):
        with pytest.raises(Refusal, match=r"was created as .*'stores': 1.*'stores': 2.*remove it first"):
            verb({**new_target, "stores": 2})
    first = claim(new_target)
    assert first["changed"] and not claim(new_target)["changed"]
    ours = first["claim"]
    assert (ours["status"], ours["amount_mib"], ours["amount_source"]) == ("claimed", 64, "declared")
    assert ours["calibration"]["write_mib_s"] > 0 and ours["calibration"]["pair_s"] > 0
    assert 0.85 * GIB < ours["capacity_bytes"] <= GIB and ours["filesystem_state_known"]
    assert ours["device_model"] == {"kind": "none", "label": "no device model", "why_none": "not declared"}

    target = open_target(new_target)
    [point] = target.mounts
    assert target.notes == [] and target.front() == [] and target.model_in_place() is None
    stat = os.statvfs(point)
    assert abs(target.capacity_bytes - stat.f_bfree * stat.f_frsize) < MIB
    assert machine.loop_info(target.devices[0]).flags & loops.LO_FLAGS_DIRECT_IO
    assert not {"discard", "discard=async"} & set(machine.mounted_at(point).options.split(","))

    (point / "filler").mkdir()
    before = target.claim["stores"][0]["uuids"]
    target.remount()
    assert (point / "filler").is_dir()
    target.format()
    [after] = files.read_json(claim_file(new_target))["stores"][0]["uuids"]
    assert [after] != before and mounting.uuid_mounted(point) in (after, None)
    assert mounting.uuid_on(target.devices[0]) == after
    assert {path.name for path in point.iterdir()} - {"lost+found"} == {".fsage"}

    released = release(new_target)
    assert released["changed"] and len(released["proof"]) >= 3
    assert not release(new_target)["changed"]
    assert not loops.devices_of(image) and Path(image["image"]).exists()
    with pytest.raises(Refusal, match="has not been claimed"):
        open_target(new_target)
    claim(new_target)  # the images are still there
    assert remove(new_target)["changed"]
    assert not Path(image["image"]).exists() and not remove(new_target)["changed"]


def test_check_changes_nothing(new_target):
    assert create(new_target, check=True)["changed"]
    assert not Path(new_target["image_dir"]).exists() and not Path(new_target["home"]).exists()
    written(new_target)
    assert claim(new_target, check=True)["changed"] and not claim_file(new_target).exists()
    claimed(new_target)
    with untouched(new_target):
        assert release(new_target, check=True)["changed"]
        assert remove(new_target, check=True)["changed"]


def test_size_follows_the_free_space(new_target, tmp_path):
    with small("ext4", tmp_path / "backing", size=3 * GIB) as backing:
        new_target |= {"image_dir": str(backing.point / "images"), "size_gib": 16}
        assert "1 x 1 GiB" in create(new_target, check=True)["msg"]
        said = create({**new_target, "size_gib": 1.25}, check=True)["msg"]
        assert "1 x 1.25 GiB" in said and said.endswith("(as declared)")
        with pytest.raises(Refusal, match=r"GiB free, and half of it, .* is less than fsage_target.minimum_gib, 2"):
            create({**new_target, "minimum_gib": 2})
        with pytest.raises(Refusal, match=r"size_gib, 1.25, is less than fsage_target.minimum_gib, 2: declare a"):
            create({**new_target, "size_gib": 1.25, "minimum_gib": 2})
        assert not (backing.point / "images").exists()


@pytest.mark.long
def test_a_backing_store_that_copies_on_write_is_told_not_to(new_target, tmp_path):
    with small("btrfs", tmp_path / "backing", size=3 * GIB) as backing:
        new_target["image_dir"] = str(backing.point / "images")
        os.mkdir(new_target["image_dir"])
        image = create(new_target)["images"][0]
        assert image["nocow"]
        assert "C" in run(["lsattr", image["image"]]).stdout.split()[0]
        remove(new_target)
        assert os.listdir(new_target["image_dir"]) == [], "it was there before, and stays"


@pytest.mark.long
def test_a_device_that_somebody_looks_at_for_a_moment_is_mounted_after_it(local_target):
    target = claimed(local_target)
    [device], [point] = target.devices, target.mounts
    mounting.unmount(point)
    descriptor = os.open(device, os.O_RDWR | os.O_EXCL)
    moment = threading.Timer(0.5, os.close, [descriptor])
    moment.start()
    filesystems.mount("ext4", device, point)
    moment.join()
    assert machine.mounted_at(point)
