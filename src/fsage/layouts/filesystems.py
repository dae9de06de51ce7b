"""The file systems whose layouts are read, on a device, in an image or mounted, and how each places new files."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fsage.base import Failure, Json
from fsage.base.shell import run
from fsage.layouts import btrfs, ext4, fiemap, machine, xfs
from fsage.layouts.fragmentation import Extent
from fsage.layouts.freespace import ONCE, Counting
from fsage.layouts.placement import ByRequest, LargestFirst, NearestFirst, Placement
from fsage.layouts.store import OF_DEVICE, Geometry, NotThisText, Store, of_extents, without

XFS_IOC_FSGEOMETRY_V1 = 0x80705864  # fs/xfs/libxfs/xfs_fs.h: struct xfs_fsop_geom_v1
# bytes of a block; blocks of an allocation group, of the log; bytes of a sector, of an inode; blocks of the data
# device, of the real-time one; first block of the log, 0 for an external one; blocks of a stripe unit, a stripe; flags
GEOMETRY = struct.Struct("=L4xL4xLLL4xQQ8xQ16xLL4xL16x")
FEATURES = {"finobt": 17, "rmapbt": 19, "reflink": 20, "inobtcount": 22}  # bits of flags, xfs_fs.h
SUPERBLOCK_AT = 1024
SUPERBLOCK = struct.Struct("<L12xLL12xQ48xL")  # magic, log2 of block bytes and of blocks a segment, blocks, first one
MAGIC = 0xF2F52010
HEAD_LINES = 2  # of segment_bits


class Defragmenter(NamedTuple):
    """What defragments one file, and the package (of apt and dnf alike) that has it."""

    command: tuple[str, ...]
    version_command: tuple[str, ...]
    package: str


class FileSystem:
    """A local file system whose layout is read."""

    name: str
    """Its name for the kernel, blkid and declarations."""
    title: str
    """Its name in sentences."""
    like: tuple[str, ...] = ()
    """Other names of the kernel's under which the same layout is read, such as ext3."""
    defragmenter: Defragmenter | None = None
    """What defragments its files."""
    placement: Placement | None = None
    """How it chooses blocks for a new file that is written through the cache, where that is known."""
    placement_direct: Placement | None = None
    """How for one that is written past the cache (O_DIRECT), where that is known."""
    fixed_inodes = False
    """Whether it is made with all inodes that it can have."""
    inodes_together = 0
    """So many are made at a time, side by side in free space."""
    places_on_device = True
    """Whether FIEMAP's addresses are places on its device."""

    def of_mount(self, device: str, mount: Path, counting: Counting = ONCE) -> Store:
        """The free space of a mounted one; what cannot be told is absent, with the reason.

        Nothing is synchronised: what the kernel has not placed yet counts as free.
        """
        try:
            return self.free_space(device, mount, counting)
        except ValueError as error:  # an extent that lies in another, or before it
            reason = f"it was written to while it was read, and what was read cannot be ({error}); ask again"
        except OSError as error:
            reason = fiemap.why(device, error)
        except Failure as error:
            reason = str(error)
        return Store(self.name, {}, {}, without(OF_DEVICE, reason))

    def free_space(self, device: str, mount: Path, counting: Counting) -> Store:
        """The free space of a mounted one. Nothing is synchronised. Raises OSError, ValueError, Failure."""
        raise Failure(f"of {self.title} no free space is read")

    def free_space_unmounted(self, device: str, counting: Counting) -> Store:
        """The free space of one on a device or in an image, mounted nowhere. Raises Failure."""
        raise Failure(f"{self.title} can be read through its mount only: mount it (-o ro) and give that directory")

    def on_device(self, mount: Path, pieces: Sequence[Extent]) -> list[Extent]:
        """Extents of a file, as FIEMAP tells them, at their places on its device. Raises OSError."""
        return list(pieces)

    def data_ranges(self, mount: Path) -> list[tuple[int, int, int]]:
        """How FIEMAP's addresses map to its device: address, place on the device, length. Raises Failure."""
        raise Failure(f"of {self.title} addresses of FIEMAP are places already")

    def risk(self, point: str) -> str | None:
        """The risk of a power loss while its files are defragmented, or shortly after; None: none is known."""
        return None


class Ext4(FileSystem):
    """ext4; ext2, ext3 and ldiskfs are read as it is."""

    name = "ext4"
    title = "ext4 (ldiskfs)"
    like = ("ext2", "ext3")
    defragmenter = Defragmenter(("e4defrag", "-v"), ("e4defrag",), "e2fsprogs")
    placement = placement_direct = ByRequest(8 << 20, 1 << 20)
    fixed_inodes = True

    def free_space(self, device: str, mount: Path, counting: Counting) -> Store:
        return ext4.of_mount(device, mount, counting)

    def free_space_unmounted(self, device: str, counting: Counting) -> Store:
        return ext4.of_device(device, counting)


class Btrfs(FileSystem):
    """btrfs, on one device."""

    name = title = "btrfs"
    # 128 MiB is the longest extent that btrfs has; unasked, those of 32 MiB and more are left as they are. -f writes
    # the file out before the command ends.
    defragmenter = Defragmenter(
        ("btrfs", "filesystem", "defragment", "-f", "-t", "128M"), ("btrfs", "--version"), "btrfs-progs"
    )
    placement = LargestFirst()
    places_on_device = False

    def free_space(self, device: str, mount: Path, counting: Counting) -> Store:
        return btrfs.of_mount(mount, counting)

    def on_device(self, mount: Path, pieces: Sequence[Extent]) -> list[Extent]:
        return fiemap.merged(btrfs.placed(pieces, btrfs.data_ranges(mount)))

    def data_ranges(self, mount: Path) -> list[tuple[int, int, int]]:
        return btrfs.data_ranges(mount)


class Xfs(FileSystem):
    """XFS.

    The layout of a mounted one is from its kernel: GETFSMAP gives the free space that `xfs_spaceman -c freesp` counts,
    with its place. xfs_db on a mounted XFS is stale even after a sync, so it is read only where XFS is mounted nowhere.
    What statfs(2) has as free is less: it leaves out what each allocation group holds back for its own trees.
    """

    name = "xfs"
    title = "XFS"
    defragmenter = Defragmenter(("xfs_fsr", "-v"), ("xfs_fsr", "-V"), "xfsprogs")
    placement = LargestFirst()
    placement_direct = NearestFirst(4 << 20)
    inodes_together = 64  # with sparse inodes a part of them

    def free_space(self, device: str, mount: Path, counting: Counting) -> Store:
        block_bytes, group_blocks, log_blocks, sector_bytes, inode_bytes, *others = _geometry_of_xfs(mount)
        blocks, real_time, log_start, unit, stripe, flags = others
        geometry = Geometry(blocks * block_bytes, block_bytes, group_blocks * block_bytes)
        store = of_extents("xfs", "FS_IOC_GETFSMAP", xfs.KIND, geometry, fiemap.free_extents(mount), counting)
        store.geometry = {
            **xfs.made(blocks, block_bytes, group_blocks, log_blocks, log_start),
            "inode_bytes": inode_bytes,
            "sector_bytes": sector_bytes,
            "features": [name for name, bit in FEATURES.items() if flags >> bit & 1],
        }
        if unit:
            store.geometry |= {"stride": unit, "stripe_blocks": stripe}
        if real_time:
            store.unlike = (
                f"it has a real-time section of {real_time} blocks, where files can lie too, and no target has one"
            )
        return store

    def free_space_unmounted(self, device: str, counting: Counting) -> Store:
        if stat.S_ISBLK(os.stat(device).st_mode) and not machine.exclusive(device):
            raise Failure("this XFS is mounted in another mount namespace: give its mount, there (nsenter -t PID -m)")
        done = run(["xfs_db", "-r", "-c", "sb 0", "-c", f"print {xfs.FIELDS}", "-c", "freesp -d", device])
        output = done.stdout + done.stderr  # it complains of damage, and ends with status 0
        try:
            return xfs.of_text(output.encode().splitlines(keepends=True), counting)
        except NotThisText as error:
            raise Failure(f"{device}: {error}; is there an XFS on it?") from error

    def risk(self, point: str) -> str | None:
        """Why a crash while files are defragmented may cost the file system; None where it may not.

        Seen on Linux 6.18, with files of more extents than an inode holds. After xfs_fsr the log holds the exchange of
        two B+trees. Recovery stops at the temporary file's inode ("Metadata corruption detected at xfs_dinode_verify").
        With reverse mapping the kernel exchanges extents in another way, and recovers.
        """
        if _geometry_of_xfs(point)[-1] >> FEATURES["rmapbt"] & 1:
            return None
        return (
            f"{point} is an XFS without rmapbt: after a crash it may not mount again without `xfs_repair -L` (seen on "
            "Linux 6.18). The risk ends when the log is written back: after a minute of idleness, or by an unmount"
        )


def _geometry_of_xfs(mount: Path | str) -> tuple[int, ...]:
    """The fields of GEOMETRY."""
    with machine.opened(mount) as fd:
        return GEOMETRY.unpack(fcntl.ioctl(fd, XFS_IOC_FSGEOMETRY_V1, bytes(GEOMETRY.size)))


class F2fs(FileSystem):
    """F2FS, on one device: new blocks are appended to its logs, and so are those that are written over.

    The layout of a mounted one is from /proc/fs/f2fs/DEVICE/segment_bits: a bitmap of the blocks in use of each segment
    (fs/f2fs/sysfs.c). Where segments begin is in the superblock (fs/f2fs/f2fs_fs.h). What F2FS holds back for its
    cleaning is in free segments, and counts as free; the bitmaps do not tell it from the rest. Its own tables lie
    before the first segment, and are in use.
    """

    name = "f2fs"
    title = "F2FS"

    def free_space(self, device: str, mount: Path, counting: Counting) -> Store:
        path = Path("/proc/fs/f2fs") / Path(device).name / "segment_bits"
        try:
            lines = path.read_text(encoding="ascii").splitlines()[HEAD_LINES:]
        except FileNotFoundError:
            raise Failure(f"{path} is not there, which alone tells which blocks of F2FS are free") from None
        with open(device, "rb") as file:
            file.seek(SUPERBLOCK_AT)
            magic, block_power, segment_power, blocks, first = SUPERBLOCK.unpack(file.read(SUPERBLOCK.size))
        if magic != MAGIC:
            raise Failure(f"{device} has no superblock of F2FS")
        block_bytes = 1 << block_power
        segment_blocks = 1 << segment_power
        geometry = Geometry(blocks * block_bytes, block_bytes, segment_blocks * block_bytes, first * block_bytes)
        runs = free_of_segments(lines, segment_blocks, first)
        free = ((begin * block_bytes, length * block_bytes) for begin, length in runs)
        source = "F2FS' bitmaps of segments (/proc/fs/f2fs), with what it holds back for cleaning"
        store = of_extents(self.name, source, "segment", geometry, free, counting)
        store.unlike = (
            "its free blocks are written by logs, segment by segment, and no list of them says in which order"
        )
        return store


def free_of_segments(lines: list[str], segment_blocks: int, first: int) -> Iterator[tuple[int, int]]:
    """Free runs of an F2FS, in blocks.

    Lines are `number type|used| bytes`, the first block in the highest bit of the first byte. A newer kernel
    (seen: 7.2) adds `| mtime`.
    """
    for number, line in enumerate(lines):
        used = "".join(f"{byte:08b}" for byte in bytes.fromhex(line.split("|")[2]))
        at = used.find("0")
        while at >= 0:
            end = used.find("1", at)
            if end < 0:
                end = segment_blocks
            yield first + number * segment_blocks + at, end - at
            at = used.find("0", end)


ALL = {system.name: system for system in (Btrfs(), Ext4(), F2fs(), Xfs())}


def like(name: str | None) -> FileSystem | None:
    """The file system as which one of this kernel's name is read; None where none can."""
    return next((system for system in ALL.values() if name in (system.name, *system.like)), None)


def of_store(store: Json) -> FileSystem:
    """The file system of a Store.summary; one of which nothing is known where none is read as it is."""
    return like(store["filesystem"]) or FileSystem()


def titles() -> str:
    """Those whose layout is read, in words: "btrfs, ext4 (ldiskfs), F2FS and XFS"."""
    *most, last = (system.title for system in ALL.values())
    return f"{', '.join(most)} and {last}"
