"""Targets that are larger than the disk: a sparse image in an XFS that fsage makes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_targets import Spec, claim, claim_file, claimed, create, release, remove, take_down
from measuring import asked, cell, observed
from small_filesystems import small
from states import bring, populate
from tiers import first_of

from fsage.base import GIB, MIB, Refusal
from fsage.base.shell import run
from fsage.host.cells import measure
from fsage.host.device import below, loops
from fsage.host.loop import images
from fsage.host.system import files, mounting
from fsage.host.targets.opening import open_target
from fsage.host.verbs import tune
from fsage.layouts import machine
from fsage.model import declaration, filesystems
from fsage.model.structure import Step

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
        loops.detach(loops.known_by(image))
    mounting.unmount(below.point_of(home))
    loops.detach(loops.known_by(noted(spec)["below"]))


@pytest.mark.long
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_life_of_a_target_larger_than_the_disk(large, filesystem):
    large["filesystem"] = filesystem
    taken = filesystems.takes(declaration.complete(large))
    assert taken.words() in create(large, check=True)["msg"] and not Path(large["image_dir"]).exists()
    create(large)
    [pool] = Path(large["image_dir"]).iterdir()
    assert pool.stat().st_size == taken.total_bytes <= pool.stat().st_blocks * 512, "all its blocks are given before"

    target = claimed(large)
    assert target.capacity_bytes > 0.98 * TIB_17 * GIB
    assert ("noinit_itable" in target.mount_options()[0]) == (filesystem == "ext4")
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
        assert create(large)["changed"]
        assert open_target(large).notes == [f"mounted {point}" for point in target.mounts]
        assert tune.recover(large, {}, False)["changed"]
        assert not loops.devices_of(loops.known_by(noted(large)["below"])), "nothing stays attached after a run"
        open_target(large)
    finally:
        run(["losetup", "--detach", device])

    released = release(large)
    assert any(sentence.endswith("takes no room") for sentence in released["proof"])
    assert not loops.devices_of(loops.known_by(noted(large)["below"]))
    assert not machine.mounted_at(below.point_of(target.home))
    assert f"{pool} is gone" in remove(large)["proof"] and not Path(large["image_dir"]).exists()


def test_refused_where_the_disk_holds_less_than_it_takes(large):
    free = shutil.disk_usage("/var/tmp").free
    large["amount_mib"] = free // MIB
    with pytest.raises(Refusal, match=r"takes [\d.]+ GiB below: .* has [\d.]+ GiB free, and half") as refused:
        create(large)
    total, metadata, cell, *others = map(float, re.findall(r"\d+\.\d\d", str(refused.value).partition(" has ")[0]))
    assert abs(total - metadata - filesystems.CELLS * cell - sum(others)) < 0.06, "the parts add up"
    assert not Path(large["image_dir"]).exists() and not (claim_file(large).parent / "images.json").exists()


@pytest.mark.parametrize("killed", first_of("before mkfs", "before the file", "in the file", "before the image"))
def test_a_creation_that_was_killed_is_finished(large, killed):
    create(large)
    home, now = claim_file(large).parent, noted(large)
    for image in now["images"]:
        loops.detach({**image, "dev": below.number(home)})
        image["status"] = "planned"
    if killed != "before the image":
        mounting.unmount(below.point_of(home))
        [device] = loops.devices_of(loops.known_by(now["below"]))
        mounting.wipe(device)
        loops.detach(loops.known_by(now["below"]))
    if killed in ("before the file", "in the file"):
        now["below"]["status"] = "planned"
        os.truncate(now["below"]["image"], MIB)
    if killed == "before the file":
        os.unlink(now["below"]["image"])
    files.write_json(home / "images.json", now)
    with pytest.raises(Refusal, match="has not been created"):
        claim(large)
    assert create(large)["changed"] and not create(large)["changed"]


@pytest.mark.long
def test_another_file_in_its_place_is_refused(large):
    target = claimed(large)
    take_down(target)
    unmount_below(large)
    pool = loops.known_by(noted(large)["below"])
    os.rename(pool["image"], f"{pool['image']}.kept")
    Path(pool["image"]).write_bytes(b"")
    with pytest.raises(Refusal, match="is another file now"):
        open_target(large)
    os.rename(f"{pool['image']}.kept", pool["image"])
    assert open_target(large).devices


def measured(spec: Spec, steps: list[Step], *names: str, makes_bytes: int = 64 * MIB) -> list[dict]:
    """The observations of cells in the state that the target is in."""
    cells = [{**cell(spec, name), "makes_bytes": makes_bytes} for name in names]
    answer = measure.measure(spec, asked(cells, steps=steps, state="wanted"), False)
    assert answer["lost"] is None and answer["measured"] == len(cells), answer["msg"]
    return [observed(spec, name)[0] for name in names]


@pytest.fixture
def small_disk(new_target: Spec, tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 GiB, on which a sparse target of 4 GiB is created."""
    disk = tmp_path / "disk"
    with small("ext4", disk, size=3 * GIB):
        new_target |= {"size_gib": 4, "sparse": True, "image_dir": str(disk / "images"), "filesystem": "xfs"}
        create(new_target)
        yield disk
        remove(new_target)
        assert not (disk / "images").exists()


def test_a_disk_that_others_fill_takes_nothing_and_a_cell_without_room_is_not_begun(new_target, small_disk):
    """Cells are measured on blocks that are there, and give them back."""
    target, steps = claimed(new_target), [populate(50)]
    said = r"it writes \d+ bytes, and below the sparse image there is room for \d+; nothing"
    with pytest.raises(Refusal, match=said):
        bring(new_target, populate(50, method="write"))
    bring(new_target, *steps)
    with contextlib.suppress(OSError), open(small_disk / "others", "wb") as others:
        for offset in range(0, 4 * GIB, MIB):
            os.posix_fallocate(others.fileno(), offset, MIB)
    assert shutil.disk_usage(small_disk).free == 0
    room_bytes = below.room_bytes(target.home)
    first, second = measured(new_target, steps, "first", "second")
    assert first["status"] == second["status"] == "done", first["why"]
    [rehearsal] = first["below"]["rehearsals"]
    assert 64 * MIB <= rehearsal < 66 * MIB and first["below"]["given_bytes"] < MIB / 4
    assert second["below"]["rehearsals"] == [], "it lies where the first one lay"
    assert first["phases"][0]["extents"]["digest"] == second["phases"][0]["extents"]["digest"]
    assert abs(below.room_bytes(target.home) - room_bytes) < 2 * MIB, "given back"

    ballast = below.point_of(target.home) / "ballast"  # as metadata that took more than was expected
    with open(ballast, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, below.room_bytes(target.home) - 48 * MIB)
    [refused] = measured(new_target, steps, "large")
    said = r"its files take 67108864 bytes, and \d+ more stay free for metadata\. Below .* room for \d+ bytes"
    assert refused["status"] == "failed" and re.search(said, refused["why"])
    [failed] = measured(new_target, steps, "larger-than-it-says", makes_bytes=0)
    assert failed["status"] == "failed" and "No space left" in str(failed["phases"][0]) + failed["why"]
    ballast.unlink()
    [seen] = measured(new_target, steps, "after")
    assert seen["status"] == "done", seen["why"]
