"""XFS.

Two settings say how much XFS gives a file at a time: the extent size hint of a directory, and the mount option
allocsize. The hint rounds every allocation of the files that are made below, direct and buffered (xfs(5), xfs_io(8)
`extsize`; FS_IOC_FSGETXATTR in <linux/fs.h>). allocsize is what XFS reserves beyond the end of a file that is written
through the cache (Documentation/admin-guide/xfs.rst). Both together cover every write.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path

from fsage.base import Failure, Json
from fsage.host.filesystems import FileSystem, Mover, Range
from fsage.host.system import kernel
from fsage.layouts.geometry import XfsGeometry
from fsage.model import filesystems as facts

FREES_PATIENCE_S = 60.0
COPY_BYTES = 1 << 20
FS_IOC_FSGETXATTR = 0x801C581F
FS_IOC_FSSETXATTR = 0x401C5820
FS_XFLAG_EXTSZINHERIT = 0x1000
FSXATTR = struct.Struct("=IIIII8x")  # fsx_xflags fsx_extsize fsx_nextents fsx_projid fsx_cowextsize
XFS_IOC_EXCHANGE_RANGE = 0x40285881
EXCHANGE = struct.Struct("=iIQQQQ")
DSYNC = 1 << 1
XFS_IOC_AG_GEOMETRY = 0xC080583D
AG_GEOMETRY = struct.Struct("=L4xL116x")  # number, free blocks
XFS_IOC_FREE_EOFBLOCKS = 0x8080583A
EOFBLOCKS = struct.Struct("=II120x")
SYNC = 1  # version, flags; version 1


TREES = {"abtb2": "free_by_place", "abtc2": "free_by_size", "bmbt2": "file_map"}
OF_TREE = ("lookups", "compares", "inserts", "deletes")
OF_EXTENTS = ("extents_allocated", "blocks_allocated", "extents_freed", "blocks_freed")


class ExchangeRange(Mover):
    """What the range holds is copied into the donor; then the kernel exchanges the extents of both, all or none.

    Nobody else may write to the file meanwhile: it is the target's, which one run holds (fs/xfs/libxfs/xfs_fs.h).
    """

    name = "XFS_IOC_EXCHANGE_RANGE"
    wants = "it wants Linux 6.10 and a file system made with exchange-range (mkfs.xfs -i exchange=1, xfsprogs 6.10)"

    def move(self, descriptor: int, donor: int, part: Range) -> None:
        begin, end = part
        size = os.fstat(descriptor).st_size
        for offset in range(begin, end, COPY_BYTES):
            data = os.pread(descriptor, min(COPY_BYTES, end - offset), offset)
            os.pwrite(donor, data, offset)
        os.ftruncate(donor, min(end, size))
        os.fsync(donor)
        call = EXCHANGE.pack(donor, 0, begin, begin, min(end, size) - begin, DSYNC)
        fcntl.ioctl(descriptor, XFS_IOC_EXCHANGE_RANGE, call)


class ExtentSize:
    """The extent size hint of every directory, and allocsize: a power of two from 64 KiB to 1 GiB; 0: as XFS likes."""

    def option(self, size_bytes: int) -> str:
        """The mount option that goes with a hint, as the kernel lists it; empty for 0."""
        if size_bytes:
            return f"allocsize={size_bytes >> 10}k"
        return ""

    def words(self, size_bytes: int) -> str:
        """The setting as text; `none` for 0."""
        if size_bytes:
            return f"extsize={size_bytes} {self.option(size_bytes)}"
        return "none"

    def size_at(self, mount: Path) -> int:
        """The hint that files made in this directory get; 0: none. Raises OSError."""
        flags, size_bytes, *_ = _attributes(mount)
        if flags & FS_XFLAG_EXTSZINHERIT:
            return size_bytes
        return 0

    def give(self, directory: Path, size_bytes: int) -> None:
        """Give files that are made in this directory from now on a hint, 0: none; read back. Raises Failure."""
        flags, _, extents, project, cow = _attributes(directory)
        flags &= ~FS_XFLAG_EXTSZINHERIT
        if size_bytes:
            flags |= FS_XFLAG_EXTSZINHERIT
        call = FSXATTR.pack(flags, size_bytes, extents, project, cow)
        with kernel.opened_folder(directory) as descriptor:
            try:
                fcntl.ioctl(descriptor, FS_IOC_FSSETXATTR, call)
            except OSError as error:
                raise Failure(
                    f"{directory}: an extent size hint of {size_bytes} was refused ({error.strerror})"
                ) from error
        hint = self.size_at(directory)
        if hint != size_bytes:
            raise Failure(f"{directory}: requested an extent size hint of {size_bytes} bytes, reads back {hint}")

    def directories(self, mount: Path) -> list[Path]:
        """Where files are made: the root of a store and what is below, but not fsage's own notes, which are small."""

        def lacking(error: OSError) -> None:
            raise error

        places = [mount]
        for top in sorted(mount.iterdir()):
            if top.name != ".fsage" and top.is_dir() and not top.is_symlink():
                places += (Path(place) for place, _, _ in os.walk(top, onerror=lacking))
        return places

    def in_place(self, mounts: Sequence[Path], options: Sequence[str], size_bytes: int) -> bool:
        """Whether every store, mounted with these options, has it everywhere. Raises OSError."""
        for mount in mounts:
            if any(self.size_at(directory) != size_bytes for directory in self.directories(mount)):
                return False
        wanted = [self.option(size_bytes)] if size_bytes else []
        for line in options:
            if [option for option in line.split(",") if option.startswith("allocsize=")] != wanted:
                return False
        return True


class Xfs(FileSystem, facts.Xfs):
    """XFS."""

    programs = ("mkfs.xfs",)
    mover = ExchangeRange()
    preallocation = ExtentSize()

    def make_command(self, fs_uuid: str, hash_seed: str) -> list[str]:
        # -f overwrites fsage's own last file system; mkfs still refuses a mounted device
        return ["mkfs.xfs", "-q", "-K", "-f", "-m", f"uuid={fs_uuid}"]

    def make_sparse_command(self, fs_uuid: str, hash_seed: str, geometry: Json | None = None) -> list[str]:
        made = XfsGeometry.from_json(geometry, "geometry").words() if geometry else []
        return [*self.make_command(fs_uuid, hash_seed), *made]

    def restoring(self, image: str, raw: str, fs_uuid: str) -> list[list[str]]:
        return [["xfs_mdrestore", image, raw], ["xfs_repair", "-n", "-f", raw], ["xfs_admin", "-f", "-U", fs_uuid, raw]]

    def superblock(self, raw: str) -> list[str]:
        return ["xfs_db", "-r", "-f", "-c", "sb 0", "-c", "print logstart rblocks", raw]

    def why_more_than_itself(self, superblock: str) -> str | None:
        # Fields as xfs_db(8) prints them; XFS keeps no mount options in its superblock.
        fields = dict(re.findall(r"^(logstart|rblocks) = (\d+)$", superblock, re.MULTILINE))
        if fields.get("logstart", "0") == "0":
            return "an external log (logstart is 0), which is on another device"
        if fields.get("rblocks") == "0":
            return None
        return "a real-time section (rblocks), which is on another device"

    def settle(self, mount: Path) -> None:
        """Have XFS free the blocks beyond the ends of files, and wait until it has freed all deleted files.

        A file that grew in several writes keeps blocks for the next write until it is evicted, or for five minutes
        (speculative preallocation, Documentation/admin-guide/xfs.rst). A state must not change then. XFS frees deleted
        files in the background, with or without a sync. statfs(2) starts that without waiting for it. It has ended when
        the free space does not change for five looks.
        """
        # A user may not: a remount frees them, and the next look notices.
        with kernel.opened_folder(mount) as descriptor, contextlib.suppress(PermissionError):
            fcntl.ioctl(descriptor, XFS_IOC_FREE_EOFBLOCKS, EOFBLOCKS.pack(1, SYNC))
        still = 0
        free = -1
        for last in kernel.attempts(FREES_PATIENCE_S, 0.002):
            now = os.statvfs(mount).f_bfree
            if now == free:
                still += 1
            else:
                still = 0
            free = now
            if still == 5:
                return
            if last:
                raise Failure(f"{mount}: space is still being freed after {FREES_PATIENCE_S} s ({now} blocks free)")

    def allocator_counts(self, device: str) -> dict[str, int]:
        """What XFS has of its trees of free extents and of files' maps (Documentation/admin-guide/xfs.rst, `stats`)."""
        path = Path("/sys/fs/xfs") / Path(device).name / "stats/stats"
        counts = dict[str, int]()
        for line in path.read_text().splitlines():
            key, *values = line.split()
            if key == "extent_alloc":
                counts.update(zip(OF_EXTENTS, map(int, values)))
            elif key in TREES:
                names = [f"{TREES[key]}_{name}" for name in OF_TREE]
                counts.update(zip(names, map(int, values)))
        return counts

    def counted(self, mount: Path, space: os.statvfs_result) -> str:
        """Free blocks, with those that the trees of free extents have; it makes inodes as it needs them.

        These trees keep some blocks after many extents were freed, and statfs(2) leaves them out.
        """
        free = 0
        number = 0
        with kernel.opened_folder(mount) as descriptor:
            try:
                while True:
                    group = fcntl.ioctl(descriptor, XFS_IOC_AG_GEOMETRY, AG_GEOMETRY.pack(number, 0))
                    free += AG_GEOMETRY.unpack(group)[1]
                    number += 1
            except OSError as error:
                if not number:  # before Linux 5.2
                    return f"{space.f_bfree}|"
                if error.errno != errno.EINVAL:  # there is no group of this number
                    raise
        return f"{free}|"

    def temporaries(self, path: Path) -> list[str]:
        """What xfs_fsr makes."""
        return [entry.name for entry in os.scandir(path.parent) if re.fullmatch(r"\.fsr[0-9]+", entry.name)]


def _attributes(directory: Path) -> tuple[int, ...]:
    with kernel.opened_folder(directory) as descriptor:
        return FSXATTR.unpack(fcntl.ioctl(descriptor, FS_IOC_FSGETXATTR, bytes(FSXATTR.size)))


FILESYSTEM = Xfs()
