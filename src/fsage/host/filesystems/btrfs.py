"""btrfs, on one device: how one is made, mounted and restored."""

from __future__ import annotations

import fcntl
import os
import re
import struct
from pathlib import Path

from fsage.host.filesystems import FileSystem, Mover, Range
from fsage.layouts.machine import Mount
from fsage.model import filesystems as facts

BTRFS_IOC_DEFRAG_RANGE = 0x40309410
DEFRAG = struct.Struct("=QQQII4I")
START_IO = 2
FS_IOC_GETFLAGS = 0x80086601
FS_IOC_SETFLAGS = 0x40086602
FS_NOCOW_FL = 0x00800000  # linux/fs.h
LONGEST_BYTES = 128 << 20  # of an extent


class DefragmentRange(Mover):
    """The file system writes the range into new extents (include/uapi/linux/btrfs.h)."""

    name = "BTRFS_IOC_DEFRAG_RANGE"
    donor = False

    def move(self, descriptor: int, donor: int, part: Range) -> None:
        begin, end = part
        call = DEFRAG.pack(begin, end - begin, START_IO, LONGEST_BYTES, 0, 0, 0, 0, 0)
        fcntl.ioctl(descriptor, BTRFS_IOC_DEFRAG_RANGE, call)


class Btrfs(FileSystem, facts.Btrfs):
    """btrfs; not for users: a second device with the UUID of a mounted one would take its place."""

    programs = ("mkfs.btrfs",)
    mover = DefragmentRange()
    frees_parts = False  # of an extent, up to 128 MiB
    no_preallocation = "btrfs has no preallocation to set: the structure itself is laid out at the granularity"

    def make_command(self, fs_uuid: str, hash_seed: str) -> list[str]:
        # -f overwrites fsage's own last file system; mkfs still refuses a mounted device
        return ["mkfs.btrfs", "-q", "-K", "-f", "-U", fs_uuid]

    def is_on(self, device: str, mount: Mount, point: Path) -> bool:
        # btrfs gives its mounts device numbers of its own, so the source is compared
        return os.path.realpath(mount.source) == os.path.realpath(device)

    def allocator_counts(self, device: str) -> dict[str, int]:
        """Its commits, and the bytes of data and metadata in use: btrfs counts no search of its allocator."""
        (place,) = Path("/sys/fs/btrfs").glob(f"*/devices/{Path(device).name}")
        commits = (place.parents[1] / "commit_stats").read_text().splitlines()
        counts = {name: int(value) for name, value in map(str.split, commits) if name in ("commits", "total_commit_ms")}
        for kind in ("data", "metadata"):
            allocation = place.parents[1] / "allocation" / kind
            for name in ("bytes_used", "disk_total"):
                counts[f"{kind}_{name}"] = int((allocation / name).read_text())
        return counts

    def restoring(self, image: str, raw: str, fs_uuid: str) -> list[list[str]]:
        return [["btrfs-image", "-r", image, raw], ["btrfs", "check", raw], ["btrfstune", "-f", "-U", fs_uuid, raw]]

    def superblock(self, raw: str) -> list[str]:
        return ["btrfs", "inspect-internal", "dump-super", raw]

    def why_more_than_itself(self, superblock: str) -> str | None:
        # btrfs keeps no mount options in its superblock
        devices = re.findall(r"^num_devices\s+(\d+)$", superblock, re.MULTILINE)
        if set(devices) == {"1"}:
            return None
        return f"{' or '.join(devices) or 'an unknown number of'} devices, not one"

    def keep_in_place(self, image: int) -> bool:
        """Set chattr +C on an open image: copy on write would move its blocks with each write."""
        flags = int.from_bytes(fcntl.ioctl(image, FS_IOC_GETFLAGS, bytes(8)), "little")
        fcntl.ioctl(image, FS_IOC_SETFLAGS, (flags | FS_NOCOW_FL).to_bytes(8, "little"))
        return True


FILESYSTEM = Btrfs()
