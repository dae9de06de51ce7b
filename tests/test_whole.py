"""A layout larger than the disk, laid whole on a sparse target that is made like its file system."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from local_targets import Spec, claimed
from small_filesystems import MIB, mounted
from states import bring
from test_geometry import OST, free_of, made

from fsage.base import GIB, Failure
from fsage.evidence import Free, save_free
from fsage.host.device import below
from fsage.host.device.copies import FICLONERANGE, clone
from fsage.host.system import space
from fsage.host.targets.opening import open_target
from fsage.host.verbs import claim
from fsage.layouts import extents, machine
from fsage.studies.replica.model import Replica

pytestmark = pytest.mark.root
GROUPS = 800
SOURCE = Path(__file__).parents[1] / "src"


def churn(place: Path, count: int, logarithm: float) -> None:
    """Files of lognormal sizes are made, as far as there is room, and each third one goes."""
    draw = random.Random(67005)
    for number in range(count):
        with (place / str(number)).open("wb") as file, contextlib.suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, 4096 * (1 + int(draw.lognormvariate(logarithm, 1))))
    for number in range(0, count, 3):
        (place / str(number)).unlink()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What dumpe2fs says of an ext4 of 100 GiB where files came and went."""
    folder = tmp_path_factory.mktemp("original")
    options = OST.replace(",quota", "").split()  # not every kernel mounts that
    image = made(folder / "image", *options, mib=128 * GROUPS - 50)
    with mounted(image, "loop,noinit_itable") as point:
        churn(point, 3500, 8.2)
    stdout = subprocess.run(["dumpe2fs", image], capture_output=True, check=True).stdout
    image.unlink()
    packed = folder / "ost0012.txt.gz"
    packed.write_bytes(gzip.compress(stdout, 1))
    return packed


@dataclass
class Alike:
    """The declaration of a target, and the layout that is laid on it."""

    spec: Spec
    original: Free
    path: Path

    def step(self, joined: bool = False) -> tuple[Replica, dict[str, str]]:
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return Replica(1, self.path.name, joined, 1, 16, 1, digest), {digest: str(self.path)}

    def lay(self, joined: bool = False, reuse: str = "fresh") -> dict[str, Any]:
        """What is noted of it."""
        step, inputs = self.step(joined)
        notes: dict[str, Any] = bring(self.spec, step, reuse=reuse, inputs=inputs)["notes"]["replica"]
        return notes


@pytest.fixture
def alike(new_target: Spec, text: Path, tmp_path: Path) -> Alike:
    """A target made like the original."""
    read = save_free(str(text), tmp_path / "ost0012.gz")
    size_gib = -(-read.head.device_bytes // GIB)
    spec = {**new_target, "size_gib": size_gib, "sparse": True, "geometry": read.head.geometry, "amount_mib": 64}
    return Alike(spec, read, tmp_path / "ost0012.gz")


def test_a_layout_is_laid_whole_with_nothing_left_to_explain(alike) -> None:
    spec, original = alike.spec, alike.original
    target = claimed(spec)
    assert target.capacity_bytes < original.head.device_bytes < target.claim["stores"][0]["image_id"]["bytes"]
    copied = alike.lay()
    assert copied["agree_share"] > 0.9999 and copied["taken_bytes"] == copied["left_bytes"] == 0, copied
    assert copied["metadata_bytes"] < MIB, "directories of fsage"
    ours = free_of(Path(open_target(spec).devices[0]))
    assert extents.size(extents.without(list(original.pairs()), ours)) == copied["metadata_bytes"], "dumpe2fs"
    journal_bytes = original.head.geometry["journal_blocks"] * original.head.block_bytes
    assert target.taken_below() > journal_bytes, "or each cell would be given blocks of the journal"
    joined = alike.lay(joined=True)
    assert joined["agree_share"] > 0.9999 and joined["taken_bytes"] < 8192
    assert joined["found"]["free_extents"] < 100 < copied["found"]["free_extents"]
    assert abs(joined["found"]["free_bytes"] - copied["found"]["free_bytes"]) < MIB

    again = alike.lay()
    assert copied["held_by"] == "the block bitmap alone" and "copied from where it was kept" in again["held_by"]
    assert {**again, "held_by": ""} == {**copied, "held_by": ""}
    assert target.taken_below() > journal_bytes
    home = target.home
    assert len(list(below.point_of(home).glob("layout-*.img"))) == 2
    proof = claim.release(spec, {}, False)["proof"]
    assert sum("layout-" in line and line.endswith("is gone") for line in proof) == 4
    assert not below.point_of(home).exists()


@pytest.mark.long
def test_an_xfs_that_was_grown_is_laid_on_one_with_as_many_groups(new_target: Spec, tmp_path: Path) -> None:
    """128 groups of 64 MiB; mkfs.xfs would choose four."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(8 * GIB)
    subprocess.run(["mkfs.xfs", "-q", "--unsupported", "-d", "agsize=64m", "-l", "size=16m", image], check=True)
    with mounted(image) as point:
        churn(point, 1000, 7)
        read = save_free(str(point), tmp_path / "grown.gz")
    spec = {**new_target, "filesystem": "xfs", "size_gib": 8, "sparse": True, "amount_mib": 64}
    alike = Alike({**spec, "geometry": read.head.geometry}, read, tmp_path / "grown.gz")
    claimed(alike.spec)
    copied = alike.lay()
    assert copied["agree_share"] > 0.9999


KILLED = """
import json, os, signal, sys
spec, step, inputs, paths, (module, name, count, late, only) = json.load(sys.stdin)
sys.path[:0] = paths
from importlib import import_module
from states import bring
from fsage.model import structure
place = import_module(module)
for part in name.split(".")[:-1]:
    place = getattr(place, part)
name, left = name.split(".")[-1], [count]
whole = getattr(place, name)
def killed(*words, **more):
    left[0] -= only is None or words[1] == only
    done = whole(*words, **more) if late else None
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return done if late else whole(*words, **more)
setattr(place, name, killed)
bring(spec, structure.read(step), reuse="fresh", inputs=inputs)
"""
SPOTS = {
    "when the blocks are taken": ("fsage.host.filesystems.ext4", "WritableBitmap.close", 1, True, None),
    "before the blocks are taken": ("fsage.host.filesystems.ext4", "WritableBitmap.take", 1, False, None),
    "before it has its name": ("os", "rename", 1, False, None),
    "in the copy back": ("fcntl", "ioctl", 3, True, FICLONERANGE),
    "after the copy": ("fsage.host.device.copies", "clone", 1, True, None),
    "after the mount": ("fsage.host.filesystems", "mount", 2, True, None),
}


@pytest.mark.long
@pytest.mark.parametrize("spot", SPOTS)
def test_laying_that_is_killed_is_resumed_by_the_same_command(alike, tmp_path, spot) -> None:
    target = claimed(alike.spec)
    wanted = alike.lay()
    alike.lay(joined=True)
    for path in below.point_of(target.home).glob("layout-*"):
        path.unlink()
    step, inputs = alike.step()
    given = [alike.spec, step.to_json(), inputs, [str(SOURCE), str(Path(__file__).parent)]]
    words = [sys.executable, "-c", KILLED]
    text = json.dumps([*given, SPOTS[spot]])
    assert subprocess.run(words, input=text, text=True, check=False).returncode == -signal.SIGKILL
    assert {**alike.lay(), "held_by": ""} == {**wanted, "held_by": ""}
    assert not list(below.point_of(target.home).glob("*.part"))


@pytest.mark.long
def test_a_machine_without_the_memory_is_told_both_numbers(alike, monkeypatch) -> None:
    claimed(alike.spec)
    monkeypatch.setattr("fsage.studies.replica.host.available_memory_bytes", lambda: MIB // 4)
    with pytest.raises(Failure, match=r"free extents, and to lay them takes \d+ MiB .* has 0 MiB available.*--samples"):
        alike.lay()


def test_what_a_control_group_leaves_is_all_the_memory_there_is() -> None:
    places = [Path(mount.point) for mount in machine.mounts() if mount.type in space.LIMITS]
    group = (
        next((place for place in places if (place / "memory.stat").exists()), places[0]) / f"fsage-test-{os.getpid()}"
    )
    group.mkdir()
    try:
        limit = next((group / names[0] for names in space.LIMITS.values() if (group / names[0]).exists()), None)
        if limit is None:
            pytest.skip("no group has a memory controller")
        limit.write_text(f"{300 * MIB}")
        asks = "from fsage.host.system.space import available_bytes as left; print(left())"
        words = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", sys.executable, "-S", "-c", asks]
        answer = subprocess.run(words, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)})
        assert 200 * MIB < int(answer.stdout) < 300 * MIB
    finally:
        group.rmdir()


@pytest.mark.long
def test_a_file_without_reflink_is_copied_with_its_holes(tmp_path) -> None:
    source, to = tmp_path / "source", tmp_path / "to"
    for path in (source, to):
        with path.open("wb") as file:
            file.truncate(256 * MIB)
    with source.open("r+b") as file:
        for at in (0, 3 * MIB, 99 * MIB, 256 * MIB - 4096):
            os.pwrite(file.fileno(), os.urandom(4096), at)
    with to.open("r+b") as file:
        os.pwrite(file.fileno(), bytes(range(256)) * 16, 50 * MIB)
    clone(source, to)
    assert to.stat().st_blocks <= source.stat().st_blocks
    subprocess.run(["cmp", source, to], check=True)
    with to.open("wb") as file:
        file.truncate(GIB)
    with pytest.raises(Failure, match="another number: nothing was copied"):
        clone(source, to)
