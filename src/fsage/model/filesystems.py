"""The local file systems that a target can be: how each is called.

Each is a class here, or in the model of a study's folder. What a host does with it is in the module of
fsage.host.filesystems, or of that study's `host`, that has its name.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from fsage.model import plugins
from fsage.model.errors import Failure, Refusal
from fsage.model.evidence.placement import ByRequest, LargestFirst, NearestFirst, Placement
from fsage.model.geometry import Geometry, Made, XfsGeometry


class Defragmenter(NamedTuple):
    """What defragments one file, and the package (of apt and dnf alike) that has it."""

    command: tuple[str, ...]
    version_command: tuple[str, ...]
    package: str


class FileSystem:
    """A local file system that a target can be."""

    name: str
    """Its name for the kernel, blkid and declarations."""
    title: str
    """Its name in sentences."""
    like: tuple[str, ...] = ()
    """Other names of the kernel's under which the same layout is read, such as ext3."""
    check_command: tuple[str, ...] = ()
    """What looks whether one in a file is sound, and changes nothing."""
    defragmenter: Defragmenter | None = None
    """What defragments its files."""
    placement: Placement | None = None
    """How it chooses blocks for a new file that is written through the cache, where that is known."""
    placement_direct: Placement | None = None
    """How for one that is written past the cache (O_DIRECT), where that is known."""
    geometry: type[Made] | None = None
    """How one is made like another; None where none is."""
    mkfs_letters = ""
    """Options of its mkfs that a study may set: they change it on its own device, and name no other."""
    takes_blocks = False
    """Whether its blocks are taken while it is not mounted."""
    allocator_options: tuple[str, ...] = ()
    """Mount options of its allocator that a study may set, to a number."""
    reads_at_mount = False
    """Whether a mount reads what its allocator needs, so that no call afterwards finds it cold."""
    loads_all = False
    """Whether it can be made to read, after a mount, all that its allocator needs."""

    guests_only = False
    """Whether fsage has it only where a kernel mounts it that runs as a program."""
    package = ""
    """The package (of apt and dnf alike) of its mkfs, where only guests have it."""
    places_when_written = False
    """Whether its blocks have no place before they are written: a file that is reserved has room, and lies nowhere."""
    fixed_inodes = False
    """Whether it is made with all inodes that it can have."""
    inodes_together = 0
    """So many are made at a time, side by side in free space."""

    def metadata_bytes(self, size_bytes: int) -> int:
        """The most that its own metadata take on a sparse image of this size, without those of many small files."""
        return size_bytes // 16384 + min(2 << 30, size_bytes // 8)

    def refuse_reserving(self, path: Path) -> None:
        """Raise Failure where a file that is reserved would lie nowhere."""
        if self.places_when_written:
            raise Failure(
                f"{path}: {self.title} gives a block its place when it is written, so no layout is made of reserved "
                "ones; use a study whose files are written (`filler: write`), or another file system"
            )


class Ext4(FileSystem):
    """ext4."""

    name = "ext4"
    title = "ext4 (ldiskfs)"
    like = ("ext2", "ext3")
    check_command = ("e2fsck", "-fn")
    defragmenter = Defragmenter(("e4defrag", "-v"), ("e4defrag",), "e2fsprogs")
    placement = placement_direct = ByRequest(8 << 20, 1 << 20)
    geometry = Geometry
    mkfs_letters = "bCEgGiINmO"
    takes_blocks = True
    allocator_options = ("mb_optimize_scan",)
    loads_all = True
    fixed_inodes = True

    def metadata_bytes(self, size_bytes: int) -> int:
        """Both bitmaps of each group, 128 MiB; 24 copies of the descriptors (sparse_super); the journal (mke2fs(8))."""
        groups = -(-size_bytes // (128 << 20))
        return groups * (2 * 4096 + 24 * 64) + min(1 << 30, size_bytes // 16)


class Xfs(FileSystem):
    """XFS."""

    name = "xfs"
    title = "XFS"
    check_command = ("xfs_repair", "-n", "-f")
    defragmenter = Defragmenter(("xfs_fsr", "-v"), ("xfs_fsr", "-V"), "xfsprogs")
    placement = LargestFirst()
    placement_direct = NearestFirst(4 << 20)
    geometry = XfsGeometry
    mkfs_letters = "bdilmns"
    inodes_together = 64  # with sparse inodes a part of them


class Btrfs(FileSystem):
    """btrfs, on one device."""

    name = title = "btrfs"
    check_command = ("btrfs", "check", "--readonly")
    # 128 MiB is the longest extent that btrfs has; unasked, those of 32 MiB and more are left as they are. -f writes
    # the file out before the command ends.
    defragmenter = Defragmenter(
        ("btrfs", "filesystem", "defragment", "-f", "-t", "128M"), ("btrfs", "--version"), "btrfs-progs"
    )
    placement = LargestFirst()
    mkfs_letters = "dmnsOR"
    reads_at_mount = True  # a small one


@cache
def _all() -> dict[str, FileSystem]:
    return {cls.name: cls() for cls in plugins.declared(FileSystem, __name__)}


def names(guests: bool = False) -> list[str]:
    """Names of the file systems that any target with its own can have; `guests`: and those of guests alone."""
    return sorted(name for name, system in _all().items() if guests or not system.guests_only)


def get(name: str | None) -> FileSystem | None:
    """The file system of this name; None where no target can be one."""
    if name:
        return _all().get(name)
    return None


def named(name: str) -> FileSystem:
    """The file system of this name. Raises Refusal where there is none."""
    system = get(name)
    if not system:
        raise Refusal(f"no target can be {name!r:.100}: there are {', '.join(names(guests=True))}")
    return system


def like(name: str | None) -> FileSystem | None:
    """The file system as which one of this kernel's name is read; None where none can."""
    return get(name) or next((system for system in map(named, names()) if name in system.like), None)


def titles() -> str:
    """Those whose layout is read, in words: "btrfs, ext4 (ldiskfs) and XFS"."""
    *most, last = (named(name).title for name in names())
    if most:
        return f"{', '.join(most)} and {last}"
    return last
