"""Evidence of real, aged file systems is what statfs and their own tools say, and taking it writes nothing."""

import io
import itertools
import os
import re
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
from local_targets import claimed
from scipy.stats import kurtosis, skew
from small_filesystems import small
from test_state import bring, fragment, populate
from tiers import first_of

from fsage.base import typed
from fsage.host import states
from fsage.host.filesystems import named
from fsage.host.states import inspection
from fsage.host.states.inspection import layout_of
from fsage.host.structure import fillers
from fsage.host.system import mounting
from fsage.host.targets.opening import open_target
from fsage.layouts import ext4, fiemap, fragmentation, machine, placement, saved
from fsage.layouts.btrfs import RESERVED
from fsage.layouts.filesystems import of_store
from fsage.layouts.inspect import inspect
from fsage.layouts.store import StoresLayout
from fsage.model import filesystems
from fsage.model.device import PLACES

MIB = 1 << 20
# The second generation fills the holes that the first one left: its files are in pieces.
STEPS = (populate(60, sizes=(MIB,)), fragment(40), populate(48, generation=2))


def said(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def read(text):
    return saved.read(io.BytesIO(text.encode())).summary(0)


def check_sums(store):
    """Every byte and every group is counted once."""
    assert store["used_bytes"] + store["free_bytes"] == store["device_bytes"]
    classes = store["free_extents"]["histogram"]
    assert sum(size_class["bytes"] for size_class in classes) == store["free_bytes"]
    assert sum(size_class["extents"] for size_class in classes) == store["free_extents"]["count"]
    groups = store["groups"]
    assert sum(bucket["groups"] for bucket in groups["buckets"]) == groups["count"] > 0
    size = store["bitmap"]["bin_bytes"]
    shares = store["bitmap"]["free_share"]
    last = store["device_bytes"] - size * (len(shares) - 1)
    assert 0 < last <= size and len(shares) <= 1024
    assert sum(shares[:-1]) * size + shares[-1] * last == pytest.approx(store["free_bytes"])
    for files in (store["files"] or {}).values():
        numbers = files["extents_per_file"].items()
        assert sum(count for _, count in numbers) == files["files"]
        assert sum(int(number) * count for number, count in numbers) == files["extents"]


def image_of(place, mib, *make):
    """An image of so many MiB with a file system."""
    with open(place / make[0], "wb") as image:
        image.truncate(int(mib * MIB))
    said(*make, image.name)
    return image.name


@pytest.fixture(params=first_of("ext4", *sorted({*filesystems.names()} - {"ext4"})))
def aged(request, local_target):
    local_target["filesystem"] = request.param
    claimed(local_target)
    bring(local_target, *STEPS)
    return open_target(local_target)


def block_places(path, target):
    """The middle of each block of a file, in bytes from the first one of its device."""
    pieces = named(target.filesystem).on_device(Path(path), fiemap.extents(path))
    return np.concatenate([np.arange(piece.physical, piece.physical + piece.length, 4096) + 2048 for piece in pieces])


def device_bytes(target):
    """Of the block device; btrfs has addresses of its own."""
    if target.filesystem == "btrfs":
        space = os.statvfs(target.mounts[0])
        return space.f_blocks * space.f_frsize
    return int(said("blockdev", "--getsize64", target.devices[0]))


@pytest.mark.root
@pytest.mark.parametrize("filesystem", first_of("btrfs", "ext4"))
def test_a_file_lies_on_the_device_where_it_is_said(tmp_path, filesystem):
    """Its bytes are read there; btrfs' addresses are its own, and a file goes on in another chunk."""
    content = os.urandom(48 * MIB)
    with small(filesystem, tmp_path / "mnt") as made:
        path = made.point / "file"
        path.write_bytes(content)
        os.sync()
        extents = fiemap.extents(path)
        placed = named(filesystem).on_device(path, extents)
        assert (placed == extents) == (filesystem == "ext4")
        with open(made.image, "rb") as image:
            found = [os.pread(image.fileno(), piece.length, piece.physical) for piece in placed]
    assert b"".join(found) == content


def sectors_written(device):
    return int(Path(f"/sys/block/{Path(device).name}/stat").read_text().split()[6])


@pytest.mark.root
def test_evidence_is_what_the_tools_say(aged):
    request = {"state": "wanted", "steps": list(STEPS), "reuse": "nested", "study": "test"}
    evidence = states.evidence(aged.spec, request, False)["evidence"]
    typed.read(StoresLayout, evidence["layout"])  # what the report reads
    (store,), (device,), (mount,) = evidence["layout"]["stores"], aged.devices, aged.mounts
    assert store["absent"] == {}
    check_sums(store)

    files = store["files"]["filler"]
    paths = [entry.path for entry in fillers(mount)]
    assert (files["files"], files["bytes"]) == (evidence["filler_files"], evidence["filler_bytes"])
    assert len(files["extents_per_file"]) > 1, "the files are in pieces, or this test shows nothing"
    by_filefrag = read(said("filefrag", "-v", *paths))["files"]["listed"]
    assert by_filefrag == files
    by_layout_of = layout_of([Path(path) for path in paths], aged)
    far = [np.abs(np.diff(block_places(path, aged))) > 4096 + aged.model.jump_bytes for path in paths]
    assert by_layout_of["jumps"] == sum(map(np.sum, far))
    assert {key: by_layout_of[key] for key in files} == files
    places = np.concatenate([block_places(path, aged) for path in paths]) / device_bytes(aged)
    moments = (places.mean(), places.std(), skew(places), kurtosis(places, fisher=False))
    assert [by_layout_of[key] for key in PLACES] == pytest.approx(moments, rel=1e-3)

    if aged.filesystem == "ext4":
        space = os.statvfs(mount)
        assert store["free_bytes"] == space.f_bfree * space.f_frsize
        mounting.unmount(mount)  # of a mounted one e2freefrag asks GETFSMAP, which leaves out what is preallocated
        by_e2freefrag = read(said("e2freefrag", device))
        assert by_e2freefrag["device_bytes"] == store["device_bytes"]
        assert by_e2freefrag["free_bytes"] == store["free_bytes"]
        assert by_e2freefrag["free_extents"]["histogram"] == store["free_extents"]["histogram"]
        assert read(said("dumpe2fs", device))["free_extents"] == store["free_extents"]
        aged.mount()
        by_kernel = ext4.of_kernel(device, mount).found
        assert by_kernel.pop("groups") == {**store["groups"], "inode_buckets": None}
        assert by_kernel == {key: store[key] for key in by_kernel}
    elif aged.filesystem == "xfs":
        by_spaceman = said("xfs_spaceman", "-c", "freesp -s", str(mount))
        assert f"total free extents {store['free_extents']['count']}\n" in by_spaceman
        assert f"total free blocks {store['free_bytes'] // 4096}\n" in by_spaceman
        by_bmap = read(said("xfs_bmap", "-v", *paths))["files"]["listed"]
        assert by_bmap == {**files, "layout_score": None}
        assert store["groups"]["count"] == int(re.search(r"agcount=(\d+)", said("xfs_info", str(mount)))[1])
    else:
        usage = said("btrfs", "filesystem", "usage", "-b", str(mount))
        unallocated = int(re.search(r"Device unallocated:\s+(\d+)", usage)[1])
        size, used = map(int, re.search(r"Data,single: Size:(\d+), Used:(\d+)", usage).groups())
        first, copy = (length for start, length in RESERVED if start < store["device_bytes"])
        left = unallocated + size - used - store["free_bytes"]
        assert left in (first, first + copy), "the copy of the superblock may lie among metadata"
    nothing_is_written_by_looking(aged, device, mount)
    is_read_while_others_use_it(device, mount)


def nothing_is_written_by_looking(aged, device, mount):
    inspection.settle(aged)
    before = sectors_written(device)
    of_device = inspect(device, 0)["stores"][0]
    of_mount = inspect(str(mount), 1_000_000)["stores"][0]
    of_part = inspect(str(mount / "filler"), 5)["stores"][0]
    assert sectors_written(device) == before
    check_sums(of_mount)
    assert of_device["absent"]["files"].startswith("files of a device or an image are not read")
    space = ("device_bytes", "free_bytes", "free_extents", "bitmap", "aligned_free_share", "groups")
    assert all(of_device[key] == of_mount[key] == of_part[key] for key in space)
    below = [path for path in mount.rglob("*") if path.is_file()]
    assert of_mount["files"]["found"]["files"] == len(below) > len(list(fillers(mount)))
    assert of_part["files"]["found"]["files"] == 5
    assert of_part["source"]["files"] == "FIEMAP; the first 5 files only (--files)"

    image = aged.claim["stores"][0]["image"]
    with pytest.raises(ValueError, match=f"attached to {device}, which may know it better"):
        inspect(image, 0)

    if aged.filesystem != "btrfs":  # on so small a device it refuses data for want of metadata
        looked = inspect(str(mount), 0)
        [store] = looked["stores"]
        for said in placement.new_files(of_store(store), store, looked["mounted"])[:2]:
            size = said.size_bytes  # what the verdict says of new files is about what they are
            (mount / "new").write_bytes(bytes(size))
            pieces = fragmentation.of_file(fiemap.extents(mount / "new")).extents
            (mount / "new").unlink()
            assert said.low / 2 <= pieces <= 2 * said.high <= 4 * said.low, (size, pieces, said)


def is_read_while_others_use_it(device, mount):
    over = threading.Event()

    def use():
        for number in itertools.takewhile(lambda _: not over.is_set(), itertools.count()):
            with open(mount / f"used{number % 50}", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, 1 + number * 7919 % MIB)
            (mount / f"used{number * 31 % 50}").unlink(missing_ok=True)

    user = threading.Thread(target=use)
    user.start()
    try:
        for what in [device, str(mount)] * 5:
            check_sums(inspect(what, 0)["stores"][0])
    finally:
        over.set()
        user.join()


@pytest.mark.root
def test_what_a_directory_target_cannot_tell_is_absent(directory_target):
    claimed(directory_target)
    steps = (populate(20),)
    bring(directory_target, *steps)
    request = {"state": "wanted", "steps": list(steps), "reuse": "nested", "study": "test"}
    (store,) = states.evidence(directory_target, request, False)["evidence"]["layout"]["stores"]
    assert store["free_bytes"] is store["groups"] is store["bitmap"] is None
    assert set(store["absent"].values()) == {"the target is a directory: its file system is not its own"}
    assert store["files"]["filler"]["files"] > 0


@pytest.mark.parametrize(
    "options", ["ext4 -b 1024", "ext4 -O bigalloc -C 65536", "ext4 -O ^flex_bg -b 4096", "ext2", "ext4 -N 64"]
)
def test_ext4_images_of_any_make(tmp_path, options):
    image = image_of(tmp_path, 200.01, "mke2fs", "-q", "-t", *options.split())
    store = inspect(image, 0)["stores"][0]
    check_sums(store)
    header = said("dumpe2fs", "-h", image)
    assert store["free_bytes"] == read(header)["free_bytes"], "not mounted: the superblock's count is right"
    by_library = ext4.of_library(image).found["free_extents"]
    assert by_library == store["free_extents"], "the library reads mounted ones of more than 1 TiB"
    if "bigalloc" not in options:  # of which e2freefrag knows nothing
        by_e2freefrag = read(said("e2freefrag", image))["free_extents"]["histogram"]
        assert store["free_extents"]["histogram"] == by_e2freefrag


def test_an_xfs_image_that_is_not_mounted(tmp_path):
    image = image_of(tmp_path, 512, "mkfs.xfs", "-q", "-d", "agcount=5")
    store = inspect(image, 0)["stores"][0]
    check_sums(store)
    assert store["groups"]["count"] == 5
    free_blocks = int(said("xfs_db", "-r", "-c", "sb 0", "-c", "print fdblocks", image).split()[-1])
    assert store["free_bytes"] == free_blocks * 4096


def test_what_cannot_be_read_is_refused_in_a_sentence(tmp_path):
    cut_short = image_of(tmp_path, 64, "mke2fs", "-q", "-t", "ext4")
    os.truncate(cut_short, 1 << 16)
    for what, reason in (
        (image_of(tmp_path, 256, "mkfs.btrfs", "-q"), "btrfs can be read through its mount only"),
        (cut_short, "`dumpe2fs .*` ended with status 1: dumpe2fs: .* short read"),
        (image_of(tmp_path, 1, "mkswap"), "swap is on it; btrfs, ext4"),
        ("/proc/self", "nothing is known of how it lies: of proc no free space is read"),
    ):
        with pytest.raises(ValueError, match=reason):
            inspect(what, 10)


def test_where_nothing_is_read_of_the_device_statvfs_tells_how_full_it_is():
    place = Path("/dev/shm")
    if machine.mount_of(place).type != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    counted = os.statvfs(place)
    found = inspect(str(place), 10)["stores"][0]
    assert found["device_bytes"] == counted.f_blocks * counted.f_frsize == found["used_bytes"] + found["free_bytes"]
    assert found["source"]["free"] == "statvfs: totals only" and not found["bitmap"]
    assert found["absent"]["free_extents"].startswith("of tmpfs no free space is read")
