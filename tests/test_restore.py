"""File systems of elsewhere, out of images of their metadata: restored, measured as they are, and never trusted."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from local_targets import claimed
from measuring import asked as asked_of_cells
from measuring import cell, observed
from small_filesystems import MAKE, MIB, small
from states import bring, fragment, populate
from tiers import first_of

from fsage.base import Failure
from fsage.base.shell import run
from fsage.host import filesystems
from fsage.host.cells import measure
from fsage.host.device import copies
from fsage.host.states import inspection
from fsage.host.system import mounting
from fsage.host.targets.opening import open_target
from fsage.layouts import machine
from fsage.layouts.inspect import inspect
from fsage.studies.aged.model import Restore
from fsage.studies.replica.model import KeepFreeSpace

pytestmark = pytest.mark.root
TAKE = {"ext4": ["e2image", "-Q"], "xfs": ["xfs_metadump"], "btrfs": ["btrfs-image"]}
OTHER_JOURNAL = ["debugfs", "-w", "-R", f"ssv journal_uuid {uuid4()}"]


def use(point: Path) -> None:
    """Days of use: trees that come and go, a link, a program with rights, a device."""
    for tree in range(40):
        place = point / f"home/user{tree % 4}/tree{tree}"
        place.mkdir(parents=True)
        for number in range(12):
            (place / f"file{number}").write_bytes(os.urandom((1 + (tree * 7 + number * 13) % 40) << 14))
        os.sync()
        if tree % 3 == 1:
            shutil.rmtree(point / f"home/user{(tree - 1) % 4}/tree{tree - 1}")
    os.symlink("/etc", point / "home/etc")
    shutil.copy("/bin/true", point / "home/rights")
    os.chmod(point / "home/rights", 0o4755)
    os.mknod(point / "home/device", 0o600 | 0o020000, os.makedev(1, 3))
    os.chown(point, 65534, 65534)
    os.chmod(point, 0o777)


def image_of(
    filesystem: str, tmp_path: Path, size: int = 320 * MIB, before: Any = use, damage: str = ""
) -> tuple[Path, int, str]:
    """An image of the metadata of a used file system, its free blocks, and its UUID; `damage`: a word to debugfs."""
    image = tmp_path / "elsewhere.img"
    with small(filesystem, tmp_path / "elsewhere", size=size) as there:
        before(there.point)
        free, uuid = os.statvfs(there.point).f_bfree, mounting.uuid_on(str(there.image))
        mounting.unmount(there.point)
        copy = shutil.copy(there.image, tmp_path / "copy.img")
        if damage:
            subprocess.run(["debugfs", "-w", "-R", damage, copy], check=True, capture_output=True)
        subprocess.run([*TAKE[filesystem], copy, str(image)], check=True, capture_output=True)
        there.mount()
    return image, free, str(uuid)


def asked(image: Path) -> tuple[Restore, dict[str, str]]:
    """The step, and the inputs that go with it."""
    digest = hashlib.sha256(image.read_bytes()).hexdigest()
    return Restore(1, image.name, digest), {digest: str(image)}


def makes_fsages(point: Path) -> None:
    (point / ".fsage").symlink_to("/etc")


@pytest.mark.parametrize("filesystem", first_of("ext4", "xfs", "btrfs"))
def test_a_used_file_system_comes_back_with_its_names_and_its_free_space(local_target, tmp_path, filesystem):
    spec = local_target
    spec["filesystem"] = filesystem
    claimed(spec)
    size = (320 if filesystem == "ext4" else 900) * MIB  # of a small XFS much is kept back for each group
    image, free, uuid = image_of(filesystem, tmp_path, size)
    with pytest.raises(ValueError, match=r"elsewhere.img: this is an image of metadata: recipe `aged` restores it"):
        inspect(str(image), 0)
    restore, inputs = asked(image)
    bring(spec, populate(30), fragment(50))  # something was there before
    token = bring(spec, restore, inputs=inputs)
    target = open_target(spec)
    [mount] = target.mounts
    assert token["notes"]["restore"]["filesystem_bytes"] == size
    assert abs(os.statvfs(mount).f_bfree - free) < 64, "but for fsage's own notes"
    trees = [path for path, _, files in os.walk(mount) if len(files) == 12]
    assert len(trees) == 27, "directories are as they were; e2image and xfs_metadump may scramble names"
    options = set(machine.mounted_at(mount).options.split(","))
    assert {"nosuid", "nodev", "noexec"} <= options
    assert filesystem != "ext4" or "errors=remount-ro" in options, "whatever its superblock says"
    assert mounting.uuid_on(target.devices[0]) not in (uuid, None)
    assert (mount.stat().st_uid, mount.stat().st_mode & 0o777) == (0, 0o755)
    measured(spec, restore)

    kept = bring(spec, restore, KeepFreeSpace(2, False), inputs=inputs)["notes"]["keep_free_space"]
    assert kept["agree_share"] > 0.95, kept["differ"]  # XFS keeps a share of so small a file system back
    assert {*os.listdir(mount)} <= {".fsage", "filler", "measured", "lost+found"}
    assert Path("/etc/passwd").exists(), "a link goes, what it leads to stays"

    bring(spec, populate(30))
    assert os.statvfs(open_target(spec).mounts[0]).f_blocks > 800 * MIB / 4096, "made anew, as large as before"


@pytest.mark.long
@pytest.mark.parametrize(
    ("of", "message"),
    [
        ({"damage": "clri home"}, r"the metadata image elsewhere.img is not taken: `.*` ended with status"),
        ({"size": 4096 * MIB, "before": os.statvfs}, r"is not taken: `.*e2image"),
        ({"before": makes_fsages}, r"elsewhere.img already has .fsage in its root, where fsage makes its own"),
        ({}, "is another one than the request names"),
        ({}, r"cannot be read on .*: Too many levels of symbolic links"),
    ],
    ids=["damaged", "larger than the target", "with what fsage makes", "another", "a link"],
)
def test_what_is_not_taken_is_refused_and_the_target_left_in_a_known_state(local_target, tmp_path, of, message):
    claimed(local_target)
    image, _, _ = image_of("ext4", tmp_path, **of)
    restore, inputs = asked(image)
    if "another" in message:
        image.write_bytes(b"another")
    if "links" in message:
        image.unlink()
        image.symlink_to("/etc/shadow")
    bring(local_target, populate(30))
    with pytest.raises(Failure, match=message):
        bring(local_target, restore, inputs=inputs)
    left_as_it_was(local_target)


def measured(spec: dict[str, Any], restore: Restore) -> None:
    """Two cells of one session are measured, and what they leave is gone, so that the state stays as restored."""
    cells = [cell(spec, name) for name in ("first", "second")]
    answer = measure.measure(spec, asked_of_cells(cells, steps=[restore], state="wanted"), False)
    assert (answer["lost"], answer["undone"], answer["measured"]) == (None, None, 2)
    for each in cells:
        seen, _ = observed(spec, each["name"])
        assert (seen["status"], seen["why"]) == ("done", None)


@pytest.mark.parametrize(
    ("make", "change", "said"),
    [
        (MAKE["ext4"], [], None),
        (MAKE["ext4"], ["debugfs", "-w", "-R", "ssv errors 3"], None),  # panic: another option of the mount's
        (MAKE["ext4"], ["debugfs", "-w", "-R", "ssv journal_dev 0x700"], r"an external journal \(Journal device\)"),
        (MAKE["ext4"], OTHER_JOURNAL, r"an external journal \(Journal UUID\)"),
        (MAKE["ext4"], ["debugfs", "-w", "-R", "ssv mount_opts nodelalloc"], r"mount options .*'nodelalloc'.*tune2fs"),
        (MAKE["ext4"], ["tune2fs", "-o", "journal_data"], r"mount options of its own \('journal_data'\)"),
        ([*MAKE["ext4"], "-O", "journal_dev"], [], r"a journal device of other file systems \(journal_dev\)"),
        (MAKE["xfs"], [], None),
        ([*MAKE["xfs"], "-l", "logdev=second.img"], [], r"an external log \(logstart is 0\)"),
        ([*MAKE["xfs"], "-r", "rtdev=second.img"], [], r"a real-time section \(rblocks\)"),
        (MAKE["btrfs"], [], None),
        ([*MAKE["btrfs"], "second.img"], [], "2 devices, not one"),
    ],
)
def test_a_superblock_that_names_another_device_or_options(tmp_path, make, change, said):
    for name in ("first.img", "second.img"):
        run(["truncate", "-s", "320M", name], cwd=tmp_path)
    run([*make, "first.img"], cwd=tmp_path)
    if change:
        run([*change, "first.img"], cwd=tmp_path)
    filesystem = filesystems.named(make[0].removeprefix("mkfs."))
    why = filesystem.why_more_than_itself(run(filesystem.superblock("first.img"), cwd=tmp_path).stdout)
    assert why is None if said is None else re.search(said, why)


def test_an_image_that_names_another_device_is_refused(tmp_path):
    image = tmp_path / "elsewhere.img"
    first = tmp_path / "first.img"
    for command in (["truncate", "-s", "32M"], MAKE["ext4"], OTHER_JOURNAL):
        run([*command, str(first)])
    run([*TAKE["ext4"], str(first), str(image)])
    [digest] = asked(image)[1]
    folder = tmp_path / "restore"
    refused = "the metadata image elsewhere.img is not taken: its superblock has an external journal"
    with pytest.raises(Failure, match=refused), copies.restored("ext4", image, digest, folder, "", 32 * MIB):
        pass
    assert not folder.exists()


def test_nothing_of_what_was_on_the_device_before_shines_through(tmp_path):
    raw, device = tmp_path / "raw", tmp_path / "device"
    with open(raw, "wb") as content:
        for place in (0, 3 * MIB, 9 * MIB):
            content.seek(place)
            content.write(os.urandom(MIB // 2))
        content.truncate(12 * MIB)
    device.write_bytes(b"\xff" * 12 * MIB)
    assert copies.write(raw, str(device)) == 3 * MIB // 2
    assert device.read_bytes() == raw.read_bytes()


def left_as_it_was(spec: dict[str, Any]) -> None:
    """Nothing beside it, and the next state is reached as ever."""
    assert not (Path(spec["home"]) / spec["name"] / "restore").exists()
    assert bring(spec, populate(20))["files"] > 0


@pytest.mark.long
def test_a_kill_amid_it_ends_in_an_empty_target(local_target, tmp_path, monkeypatch):
    claimed(local_target)
    image, _, _ = image_of("ext4", tmp_path)
    restore, inputs = asked(image)
    bring(local_target, populate(20))
    real = os.pwrite

    def killed(descriptor: int, content: bytes, offset: int) -> int:
        if offset > 100 * MIB and os.readlink(f"/proc/self/fd/{descriptor}").startswith("/dev/loop"):
            raise KeyboardInterrupt
        return real(descriptor, content, offset)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "pwrite", killed)
        bring(local_target, restore, inputs=inputs)
    target = open_target(local_target)
    assert any("finished a format that had been interrupted" in note for note in target.notes)
    assert inspection.inspect(target)[0] is None
    left_as_it_was(local_target)


def test_a_study_says_that_it_trusts(refused):
    block = {
        "name": "small",
        "title": "t",
        "question": "q",
        "states": {"recipe": "aged", "images": ["ost0012.qcow2"]},
        "cells": {"workload": "sequential", "transfer_size": ["4M"], "iterations": 2},
    }
    said = "states.trusted: an image is mounted: this machine's kernel then reads what its maker wrote"
    assert said in refused(block)
    block["states"] = {"recipe": "aged", "images": ["../ost0012.qcow2"], "trusted": True}
    assert "states.images" in refused(block)
    block["states"] = {"recipe": "aged"}
    assert "states.ways: no way and no image: give at least one of either" in refused(block)
