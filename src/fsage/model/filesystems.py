"""The local file systems that a target can be: how each is called, and what a sparse one takes of the disk below.

Each is a class here, or in the model of a study's folder. What a host does with it is in the module of
fsage.host.filesystems, or of that study's `host`, that has its name.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from fsage.base import GIB, MIB, Failure, Refusal
from fsage.layouts import filesystems as layouts
from fsage.layouts.geometry import Geometry, Made, XfsGeometry
from fsage.model import plugins
from fsage.model.target import Spec


class FileSystem(layouts.FileSystem):
    """A local file system that a target can be."""

    check_command: tuple[str, ...] = ()
    """What looks whether one in a file is sound, and changes nothing."""
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
    node_bytes = 4096
    """What it reads at a time of its maps."""
    checked_bytes: int | None = None
    """So much of a file has its checksums in one node, which is read when the file is read there; None: it has none."""
    places_when_written = False
    """Whether its blocks have no place before they are written: a file that is reserved has room, and lies nowhere."""

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


class Ext4(FileSystem, layouts.Ext4):
    """ext4."""

    check_command = ("e2fsck", "-fn")
    geometry = Geometry
    mkfs_letters = "bCEgGiINmO"
    takes_blocks = True
    allocator_options = ("mb_optimize_scan",)
    loads_all = True

    def metadata_bytes(self, size_bytes: int) -> int:
        """Both bitmaps of each group, 128 MiB; 24 copies of the descriptors (sparse_super); the journal (mke2fs(8))."""
        groups = -(-size_bytes // (128 << 20))
        return groups * (2 * 4096 + 24 * 64) + min(1 << 30, size_bytes // 16)


class Xfs(FileSystem, layouts.Xfs):
    """XFS."""

    check_command = ("xfs_repair", "-n", "-f")
    geometry = XfsGeometry
    mkfs_letters = "bdilmns"


class Btrfs(FileSystem, layouts.Btrfs):
    """btrfs, on one device."""

    check_command = ("btrfs", "check", "--readonly")
    mkfs_letters = "dmnsOR"
    node_bytes = 16384
    checked_bytes = (node_bytes - 101 - 25) // 4 * 4096  # a node's header and an item's; 4 bytes of CRC32C a block
    reads_at_mount = True  # a small one


@cache
def _all() -> dict[str, FileSystem]:
    return plugins.by_name((cls.name, cls()) for cls in plugins.declared(FileSystem, __name__))


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


USUAL_CELL_BYTES = 4 * GIB
"""Room for a cell's files where no amount is declared; at most SHARE_OF_SIZE of the target."""
SHARE_OF_SIZE = 0.15
CELLS = 5
"""Room is reserved for the files of a cell at so many places, which stay one after the other; a study has five."""
KEPT_LAYOUTS = 2
"""On a target with a geometry so many layouts are kept. The image shares its blocks with one, or mkfs has just run."""
LEAST_BYTES = 512 * MIB  # mkfs.xfs wants 300 MiB
OVERHEAD = 1.02  # of the XFS that the images lie in, with its log beside that
LOG_BYTES = 64 * MIB


class Takes(NamedTuple):
    """Bytes that a sparse target takes below."""

    metadata_bytes: int
    cell_bytes: int
    margin_bytes: int

    @property
    def total_bytes(self) -> int:
        """All together, whole MiB, with what the XFS below needs for itself."""
        wanted = self.metadata_bytes + self.written_bytes + self.margin_bytes
        return -(-max(LEAST_BYTES, int(wanted * OVERHEAD) + LOG_BYTES) // MIB) * MIB

    @property
    def written_bytes(self) -> int:
        """What files of cells can take, all that stay at a time."""
        return CELLS * self.cell_bytes

    def words(self) -> str:
        """The sum and its parts."""
        own_bytes = self.total_bytes - self.metadata_bytes - self.written_bytes - self.margin_bytes
        total, metadata, cell, margin, own = (f"{part / GIB:.2f}" for part in (self.total_bytes, *self, own_bytes))
        return (
            f"{total} GiB below: metadata {metadata}, {CELLS} times the largest cell {cell}, margin {margin}, the XFS "
            f"itself {own}"
        )


def takes(spec: Spec) -> Takes:
    """What a sparse target as declared takes."""
    size_bytes = int(spec["size_gib"] * GIB)
    tasks = max(1, int(spec["scale"]["tasks"]))
    cell_bytes = min(USUAL_CELL_BYTES, int(size_bytes * SHARE_OF_SIZE))
    if spec["amount_mib"]:
        cell_bytes = spec["amount_mib"] * tasks * MIB
    system = named(spec["filesystem"])
    metadata_bytes = system.metadata_bytes(size_bytes)
    if spec["geometry"] and system.takes_blocks:
        geometry = Geometry.from_json(spec["geometry"], "fsage_target.geometry")
        metadata_bytes = KEPT_LAYOUTS * geometry.laid_bytes + geometry.made_bytes
    return Takes(metadata_bytes, cell_bytes, max(64 * MIB, (metadata_bytes + CELLS * cell_bytes) // 16))
