"""ext4."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
from collections.abc import Callable, Iterable
from ctypes import c_int, c_uint64, c_void_p
from pathlib import Path

from fsage.base import Failure, Json, message
from fsage.host.filesystems import FileSystem, Mover, Range
from fsage.layouts.ext4 import FLAG_64BITS, BlockBitmap
from fsage.layouts.extents import Extents
from fsage.layouts.geometry import Geometry
from fsage.model import filesystems as facts

BLOCK_BYTES = 4096
GROUP_BYTES = 8 * BLOCK_BYTES * BLOCK_BYTES
LOADED_GROUPS = 8192  # 1 TiB
FIELD = re.compile(r"^([A-Z][\w #]*):[ \t]+(\S.*)$", re.MULTILINE)  # of dumpe2fs -h
USUAL_OPTIONS = {"(none)", "user_xattr", "acl"}
"""Mount options that the superblock has from mke2fs."""
FLAG_RW = 0x1  # lib/ext2fs/ext2fs.h
EXT4_IOC_MOVE_EXT = 0xC028660F
MOVE = struct.Struct("=IIQQQQ")  # reserved, donor, begins of both, length, moved


class WritableBitmap(BlockBitmap):
    """The bitmap of an ext4 that is mounted nowhere; nothing is written before `close`."""

    flags = FLAG_64BITS | FLAG_RW

    def take(self, extents: Iterable[tuple[int, int]]) -> None:
        """Mark free extents as in use, in bytes; none may be in use already."""
        size = self.block_bytes
        take = self.library.ext2fs_block_alloc_stats_range
        take.argtypes = [c_void_p, c_uint64, c_uint64, c_int]
        take.restype = None
        for start, end in extents:
            take(self.system, start // size, (end - start) // size, 1)

    def close(self) -> None:
        """Write what was taken, and close."""
        system = self.system
        self.system = type(system)()
        self.call("ext2fs_close", system)


class MoveExtents(Mover):
    """The kernel copies what the range holds into the donor's blocks, and exchanges the extents (fs/ext4/ext4.h)."""

    name = "EXT4_IOC_MOVE_EXT"

    def move(self, descriptor: int, donor: int, part: Range) -> None:
        begin = part[0] // BLOCK_BYTES
        end = part[1] // BLOCK_BYTES
        while begin < end:
            given = bytearray(MOVE.pack(0, donor, begin, begin, end - begin, 0))
            fcntl.ioctl(descriptor, EXT4_IOC_MOVE_EXT, given)
            moved = MOVE.unpack(given)[-1]
            if not moved:
                raise OSError(errno.EIO, f"no block was moved from block {begin} on")
            begin += moved


def _is_large(device: str) -> bool:
    """Whether it has more groups than are read after each mount."""
    sectors = int((Path("/sys/class/block") / Path(device).name / "size").read_text())
    return sectors * 512 > LOADED_GROUPS * GROUP_BYTES


class Ext4(FileSystem, facts.Ext4):
    """ext4; its layout is read as that of ext2, ext3 and ldiskfs is."""

    programs = ("mkfs.ext4",)
    options = "nodiscard,errors=remount-ro"  # whatever a superblock says: one of an image's could have panic
    sparse_option = "noinit_itable"  # tables of inodes that nobody uses are never written
    mover: Mover | None = MoveExtents()
    no_preallocation = (
        "mainline ext4 has neither prealloc_table nor mb_last_group: the structure itself is laid out at the "
        "granularity, and umount and mount start the allocator anew"
    )

    def make_command(self, fs_uuid: str, hash_seed: str) -> list[str]:
        # Everything is written now: what ext4 writes later in the background would be measured. No -F: mke2fs itself
        # refuses a device in use. The hash seed is constant, so that directories hash alike every time.
        return self._command(fs_uuid, hash_seed, "lazy_itable_init=0")

    def make_sparse_command(self, fs_uuid: str, hash_seed: str, geometry: Json | None = None) -> list[str]:
        # The journal has its blocks, or one cell after the other would fill its holes.
        made = Geometry.from_json(geometry, "geometry") if geometry else None
        return self._command(fs_uuid, hash_seed, "lazy_itable_init=1", made)

    def after_device(self, geometry: Json | None) -> list[str]:
        if geometry:
            return [str(geometry["blocks"])]
        return []

    def _command(self, fs_uuid: str, hash_seed: str, tables: str, made: Geometry | None = None) -> list[str]:
        how = ["nodiscard", tables, "lazy_journal_init=0", f"hash_seed={hash_seed}", *(made.extended() if made else ())]
        alike = made.words() if made else []
        return ["mkfs.ext4", "-q", "-m", "0", "-U", fs_uuid, *alike, "-E", ",".join(how)]

    def restoring(self, image: str, raw: str, fs_uuid: str) -> list[list[str]]:
        # The image is from `e2image -Q`. tune2fs refuses a file system that was not checked after its last use.
        checked = [["e2fsck", "-f", "-n", raw], ["e2fsck", "-f", "-p", raw]]
        return [["e2image", "-r", image, raw], *checked, ["tune2fs", "-U", fs_uuid, raw]]

    def superblock(self, raw: str) -> list[str]:
        return ["dumpe2fs", "-h", raw]

    def why_more_than_itself(self, superblock: str) -> str | None:
        # A label may contain line ends and so imitate a field: every line of a name counts.
        words: dict[str, set[str]] = {}
        for name, value in FIELD.findall(superblock):
            words.setdefault(name, set()).update(value.split())
        for name in ("Journal device", "Journal UUID"):
            if name in words:
                return f"an external journal ({name}): `tune2fs -O ^has_journal` on a copy, unmounted, takes it away"
        if "journal_dev" in words.get("Filesystem features", {"journal_dev"}):
            return "no file system, but a journal device of other file systems (journal_dev)"
        default = words.get("Default mount options", set()) - USUAL_OPTIONS
        options = sorted(default | words.get("Mount options", set()))
        if options:
            return (
                f"mount options of its own ({message.shown(' '.join(options))}): `tune2fs -E mount_opts= -o "
                "^NAME` on a copy, unmounted, takes them away"
            )
        return None

    def still_option(self, device: str) -> str:
        """Where bitmaps are too many to be read first, ext4lazyinit is not to read them beside a cell (since 5.13)."""
        return "no_prefetch_block_bitmaps" if _is_large(device) else ""

    def mounted(self, device: str, warm: bool | None = None) -> None:
        """Have it count what its allocator does, and read the bitmap of every block group, so that its choice repeats.

        Its first passes leave out groups whose bitmap is not in memory yet: after a mount, what a file gets would
        depend on which reads have come back. Reading mb_groups loads them all (fs/ext4/mballoc.c,
        ext4_mb_seq_groups_show). For local ext4 only: in several ldiskfs series this file must not be read.

        A large one has too many: 180,000 take 5 to 47 s. There the allocator begins with none (`still_option`).
        """
        with contextlib.suppress(FileNotFoundError):
            _sysfs(device, "mb_stats").write_text("1")
        if warm is False:
            return
        if warm or not _is_large(device):
            with contextlib.suppress(FileNotFoundError):
                (Path("/proc/fs/ext4") / Path(device).name / "mb_groups").read_bytes()

    def allocator_counts(self, device: str) -> dict[str, int]:
        """What mb_stats has: names of criteria stand before their counters (ext4_seq_mb_stats_show)."""
        path = Path("/proc/fs/ext4") / Path(device).name / "mb_stats"
        counts = dict[str, int]()
        criterion = ""
        for line in path.read_text().splitlines()[1:]:
            name, _, value = line.strip().partition(": ")
            if name.startswith("mb stats collection turned off"):
                raise Failure(f"{path} does not count: 1 could not be written to {_sysfs(device, 'mb_stats')}")
            if not line.startswith("\t\t"):
                criterion = "" if value else name.removesuffix("stats:")
            if value:
                counts[criterion + name] = int(value.partition("/")[0])
        return counts

    def take_free(self, device: str, choose: Callable[[Extents], Extents]) -> None:
        bitmap = WritableBitmap(device)
        try:
            bitmap.take(choose(list(bitmap.free())))
            bitmap.close()
        finally:
            bitmap.leave()

    def counted(self, mount: Path, space: os.statvfs_result) -> str:
        """Free blocks and inodes."""
        return f"{space.f_bfree}|{space.f_ffree}"

    def temporaries(self, path: Path) -> list[str]:
        """What e4defrag makes."""
        return [f"{path.name}.defrag"]


def _sysfs(device: str, name: str) -> Path:
    return Path("/sys/fs/ext4") / Path(device).name / name


FILESYSTEM = Ext4()
