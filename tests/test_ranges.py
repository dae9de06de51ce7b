"""Ranges of real files are put into one piece by the file system's own call, or it is said why not."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from multiprocessing import get_context
from pathlib import Path

import pytest
from small_filesystems import MIB, fragmented, small

from fsage.base import Refusal
from fsage.host.system import mounting, space
from fsage.layouts import fiemap, fragmentation
from fsage.studies.defrag.host import checksum, defragmentation

pytestmark = pytest.mark.root
PIECE = 1 << 12
# XFS superblock (fs/xfs/libxfs/xfs_format.h): 512 bytes, features_incompat big-endian, CRC32C little-endian
INCOMPAT, CRC, EXCHANGE_RANGE = 216, 224, 1 << 6


def extents_in(path: Path, interval: defragmentation.Range) -> int:
    return defragmentation._within(fiemap.extents(path), interval).extents


@pytest.mark.parametrize("filesystem", ["ext4", "btrfs"])
def test_only_what_is_hot_and_in_pieces_is_moved(filesystem, tmp_path):
    with small(filesystem, tmp_path / "mnt") as made:
        (path,) = fragmented({made.point / "file": 2048}, PIECE)
        content, size = checksum(path), path.stat().st_size
        hot = defragmentation.hot(size, MIB, 4 * MIB)
        assert hot == [(0, MIB), (4 * MIB, 5 * MIB)]
        before = extents_in(path, (5 * MIB, size))
        done = defragmentation.defragment_ranges(path, filesystem, hot, 60)
        assert (done["ranges"], done["ranges_moved"], done["ranges_after"]) == (2, 2, 2)
        assert 400 < done["ranges_before"] <= 512, "some of ext4's first pieces lie side by side"
        assert done["moved_bytes"] == done["range_bytes"] == 2 * MIB and not done["left"]
        assert [extents_in(path, each) for each in hot] == [1, 1] and extents_in(path, (5 * MIB, size)) == before > 600
        mounting.unmount(made.point)  # what is compared has reached the device
        made.mount()
        assert checksum(path) == content
        again = defragmentation.defragment_ranges(path, filesystem, hot, 60)
        assert again["ranges_moved"] == again["moved_bytes"] == 0, "they are in one piece already"
        late = defragmentation.defragment_ranges(path, filesystem, [(0, size)], -1.0)
        assert late["moved_bytes"] == 0 and "the time was over" in late["left"][0]
        assert [entry.name for entry in made.point.iterdir() if entry.name != "lost+found"] == ["file"]


def test_without_the_call_nothing_is_moved_and_the_reason_said(tmp_path):
    with small("xfs", tmp_path / "mnt") as made:
        (path,) = fragmented({made.point / "file": 512}, PIECE)
        content, before = checksum(path), fiemap.extents(path)
        with pytest.raises(Refusal, match=r"XFS_IOC_EXCHANGE_RANGE is not to be had .*exchange-range .*exchange=1"):
            defragmentation.defragment_ranges(path, "xfs", [(0, MIB)], 60)
        assert checksum(path) == content and fiemap.extents(path) == before
        with pytest.raises(Refusal, match="tmpfs has no call that moves a range of a file; btrfs, ext4, xfs have"):
            defragmentation.defragment_ranges(path, "tmpfs", [(0, MIB)], 60)


@pytest.mark.long
def test_xfs_exchanges_the_extents_of_ranges_where_it_can(tmp_path):
    with small("xfs", tmp_path / "mnt") as made:
        (path,) = fragmented({made.point / "file": 2048}, PIECE)
        content, before = checksum(path), extents_in(path, (0, 8 * MIB))
        mounting.unmount(made.point)
        exchange_range(made.image, True)  # mkfs.xfs of Debian 12 cannot
        try:
            made.mount()
        except subprocess.CalledProcessError:
            exchange_range(made.image, False)
            made.mount()
            pytest.skip("this kernel mounts no XFS with exchange-range (Linux 6.10)")
        done = defragmentation.defragment_ranges(path, "xfs", defragmentation.hot(8 * MIB, MIB, 4 * MIB), 60)
        assert (done["ranges_moved"], done["ranges_after"]) == (2, 2) and done["moved_bytes"] == 2 * MIB
        assert extents_in(path, (0, 8 * MIB)) < before - 400
        mounting.unmount(made.point)
        exchange_range(made.image, False)  # and its xfs_repair knows nothing of it
        made.mount()
        assert checksum(path) == content


def exchange_range(image: Path, on: bool) -> None:
    """Set or clear the feature in the superblock."""
    with open(image, "r+b") as file:
        block = bytearray(file.read(512))
        (features,) = struct.unpack_from(">I", block, INCOMPAT)
        struct.pack_into(">I", block, INCOMPAT, features | EXCHANGE_RANGE if on else features & ~EXCHANGE_RANGE)
        struct.pack_into("<I", block, CRC, 0)
        struct.pack_into("<I", block, CRC, crc32c(block))
        file.seek(0)
        file.write(block)


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_killed_at_any_moment_the_file_holds_what_it_held(tmp_path):
    with small("ext4", tmp_path / "mnt") as made:
        (path,) = fragmented({made.point / "file": 4096}, PIECE)
        content, size = checksum(path), path.stat().st_size
        before = fragmentation.of_file(fiemap.extents(path)).extents
        free = space.free_bytes(made.point)
        arguments = (path, "ext4", defragmentation.hot(size, MIB // 4, MIB // 4), 60)
        begun = 0
        for moment in (lambda: True, lambda: fragmentation.of_file(fiemap.extents(path)).extents < before):
            process = get_context("fork").Process(target=defragmentation.defragment_ranges, args=arguments)
            process.start()
            while not moment() and process.is_alive():
                time.sleep(0.001)
            begun += process.is_alive()
            assert process.pid
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            mounting.unmount(made.point)
            made.check()
            made.mount()
            assert checksum(path) == content
        assert begun == 2 and fragmentation.of_file(fiemap.extents(path)).extents < before
        assert abs(space.free_bytes(made.point) - free) < MIB, "the donors went with who made them"
