"""File systems of elsewhere, out of images of their metadata: restored, measured as they are, and never trusted."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from local_targets import claimed
from records import CONFIG
from small_filesystems import MAKE, MIB, small
from states import bring, fragment, populate

from fsage.base import Failure
from fsage.base.shell import run
from fsage.host.cells import measure
from fsage.host.states import inspection
from fsage.host.stores import copies, filesystems
from fsage.host.system import mounting
from fsage.host.targets.opening import open_target
from fsage.layouts import machine
from fsage.layouts.inspect import inspect
from fsage.recipes import expand
from fsage.studies.aged.model import Restore
from fsage.studies.replica.model import KeepFreeSpace
from fsage.study.files import load_study
from fsage.workloads import sequential

pytestmark = pytest.mark.root
TAKE = {"ext4": ["e2image", "-Q"], "xfs": ["xfs_metadump"], "btrfs": ["btrfs-image"]}


def use(point: Path) -> None:
    """Days of use: trees that come and go, a link, a program with rights, a device."""
    for tree in range(40):
        for number in range(12):
            path = point / f"home/user{tree % 4}/tree{tree}/file{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.urandom((1 + (tree * 7 + number * 13) % 40) << 14))
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


def target_of(spec: dict[str, Any], filesystem: str = "ext4") -> dict[str, Any]:
    spec["filesystem"] = filesystem
    claimed(spec)
    return spec


@pytest.mark.parametrize(
    "filesystem", ["ext4", *(pytest.param(name, marks=pytest.mark.long) for name in ("xfs", "btrfs"))]
)
def test_a_used_file_system_comes_back_with_its_names_and_its_free_space(local_target, tmp_path, filesystem):
    spec = target_of(local_target, filesystem)
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
    assert mounting.uuid_on(target.devices[0]) not in (uuid, None) and os.stat(mount).st_uid == 0
    assert os.stat(mount).st_mode & 0o777 == 0o755
    measured(spec, restore, cells=2)

    kept = bring(spec, restore, KeepFreeSpace(2, False), inputs=inputs)["notes"]["keep_free_space"]
    assert kept["agree_share"] > 0.95, kept["differ"]  # XFS keeps a share of so small a file system back
    assert sorted(set(os.listdir(mount)) - {".fsage", "filler", "measured", "lost+found"}) == []
    assert Path("/etc/passwd").exists(), "a link goes, what it leads to stays"

    bring(spec, populate(30))
    assert os.statvfs(open_target(spec).mounts[0]).f_blocks > 800 * MIB / 4096, "made anew, as large as before"


@pytest.mark.long
def test_what_fsck_rejects_is_refused_and_the_target_left_in_a_known_state(local_target, tmp_path):
    spec = target_of(local_target)
    image, _, _ = image_of("ext4", tmp_path, damage="clri home")
    restore, inputs = asked(image)
    bring(spec, populate(30))
    with pytest.raises(Failure, match=r"the metadata image elsewhere.img is not taken: `.*` ended with status"):
        bring(spec, restore, inputs=inputs)
    left_as_it_was(spec)


def measured(spec: dict[str, Any], restore: Restore, cells: int) -> None:
    """Cells of one session: each is measured, and what it leaves is gone, so that the state stays as restored."""
    params = {"workload": "sequential", "tool": "fio", "transfer_size": 4 * MIB, "iteration": 1}
    phases = sequential.commands(sequential.Params.model_validate(params), open_target(spec).claim)
    about = {"kind": "planned", "order": 1, "attempt": 1, "params": params, "phases": phases}
    planned = [{"name": f"cell{number}", **about} for number in range(cells)]
    request = {"study": "test", "state": "wanted", "nominal": {}, "steps": [restore], "reuse": "nested"}
    answer = measure.measure(spec, {**request, "cells": planned}, False)
    assert (answer["lost"], answer["undone"], answer["measured"]) == (None, None, cells)
    outbox = Path(spec["home"]) / spec["name"] / "outbox"
    observed = [json.loads(path.read_text()) for path in outbox.rglob("cell*.json")]
    assert [(each["status"], each["why"]) for each in observed] == [("done", None)] * cells


@pytest.mark.parametrize(
    ("make", "change", "said"),
    [
        (MAKE["ext4"], [], None),
        (MAKE["ext4"], ["debugfs", "-w", "-R", "ssv errors 3"], None),  # panic: another option of the mount's
        (MAKE["ext4"], ["debugfs", "-w", "-R", "ssv journal_dev 0x700"], r"an external journal \(Journal device\)"),
        (MAKE["ext4"], ["debugfs", "-w", "-R", f"ssv journal_uuid {uuid4()}"], r"an external journal \(Journal UUID\)"),
        (
            MAKE["ext4"],
            ["debugfs", "-w", "-R", "ssv mount_opts nodelalloc"],
            r"mount options .*'nodelalloc'.*: `tune2fs",
        ),
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
        with open(tmp_path / name, "wb") as file:
            os.truncate(file.fileno(), 320 * MIB)
    for command in ([*make, "first.img"], [*change, "first.img"] if change else ["true"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    filesystem = filesystems.named(make[0].removeprefix("mkfs."))
    why = filesystem.why_more_than_itself(run(filesystem.superblock("first.img"), cwd=tmp_path).stdout)
    assert why is None if said is None else re.search(said, why)


def test_an_image_that_names_another_device_is_refused(tmp_path):
    first, image = tmp_path / "first.img", tmp_path / "elsewhere.img"
    first.touch()
    os.truncate(first, 32 * MIB)
    journal = ["debugfs", "-w", "-R", f"ssv journal_uuid {uuid4()}", first]
    for command in ([*MAKE["ext4"], first], journal, [*TAKE["ext4"], first, image]):
        subprocess.run(command, check=True, capture_output=True)
    digest, folder = hashlib.sha256(image.read_bytes()).hexdigest(), tmp_path / "restore"
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
    home = Path(spec["home"]) / spec["name"]
    assert not (home / "restore").exists()
    assert bring(spec, populate(20))["files"] > 0


@pytest.mark.long
def test_another_image_than_the_one_that_was_named(local_target, tmp_path):
    spec = target_of(local_target)
    image, _, _ = image_of("ext4", tmp_path)
    restore, inputs = asked(image)
    with open(image, "ab") as content:
        content.write(b"more")
    with pytest.raises(Failure, match="is another one than the request names"):
        bring(spec, restore, inputs=inputs)
    image.unlink()
    image.symlink_to("/etc/shadow")
    with pytest.raises(Failure, match=r"cannot be read on .*: Too many levels of symbolic links"):
        bring(spec, restore, inputs=inputs)
    left_as_it_was(spec)


@pytest.mark.long
def test_one_that_is_larger_than_the_target(local_target, tmp_path):
    spec = target_of(local_target)
    image, _, _ = image_of("ext4", tmp_path, size=4096 * MIB, before=lambda point: None)
    restore, inputs = asked(image)
    with pytest.raises(Failure, match=r"is not taken: `.*e2image"):
        bring(spec, restore, inputs=inputs)
    left_as_it_was(spec)


@pytest.mark.long
def test_one_that_has_what_fsage_makes_is_refused(local_target, tmp_path):
    spec = target_of(local_target)
    image, _, _ = image_of("ext4", tmp_path, before=lambda point: (point / ".fsage").symlink_to("/etc"))
    restore, inputs = asked(image)
    with pytest.raises(Failure, match=r"elsewhere.img already has .fsage in its root, where fsage makes its own"):
        bring(spec, restore, inputs=inputs)
    assert not (Path("/etc") / "claim.json").exists()
    left_as_it_was(spec)


@pytest.mark.long
def test_a_kill_amid_it_ends_in_an_empty_target(local_target, tmp_path, monkeypatch):
    spec = target_of(local_target)
    image, _, _ = image_of("ext4", tmp_path)
    restore, inputs = asked(image)
    bring(spec, populate(20))
    real = os.pwrite

    def killed(descriptor: int, content: bytes, offset: int) -> int:
        if offset > 100 * MIB and os.readlink(f"/proc/self/fd/{descriptor}").startswith("/dev/loop"):
            raise KeyboardInterrupt
        return real(descriptor, content, offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", killed)
        with pytest.raises(KeyboardInterrupt):
            bring(spec, restore, inputs=inputs)
    target = open_target(spec)
    assert any("finished a format that had been interrupted" in note for note in target.notes)
    assert inspection.inspect(target)[0] is None
    left_as_it_was(spec)


def test_a_study_says_that_it_trusts(refused, load):
    block = {
        "name": "small",
        "title": "t",
        "question": "q",
        "states": {"recipe": "aged", "images": ["ost0012.qcow2"]},
        "cells": {"workload": "sequential", "transfer_size": ["4M"], "iterations": 2},
    }
    assert "states.trusted: an image is mounted: this machine's kernel then reads what its maker wrote" in refused(
        block
    )
    block["states"]["trusted"] = True
    names = [each.name for each in expand(load(block))]
    assert names == ["ost0012.original", "ost0012.copied", "ost0012.joined"]
    block["states"]["images"] = ["../ost0012.qcow2"]
    assert "states.images" in refused(block)
    block["states"] = {"recipe": "aged"}
    assert "states.ways: no way and no image: give at least one of either" in refused(block)
    assert len(expand(load_study(CONFIG / "replica_validity.yaml"))) == 9
