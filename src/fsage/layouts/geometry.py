"""How an ext4 or XFS was made: what mkfs must be told so that another one has its metadata in the same places."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fsage.base import Json
from fsage.base.message import Unacceptable
from fsage.base.typed import Check, Count, Positive, between, read_block

BLOCK_BYTES = 4096
"""Blocks that a target can have: a page of memory."""
ALIKE = (
    *("64bit", "flex_bg", "meta_bg", "sparse_super", "sparse_super2", "resize_inode", "has_journal", "uninit_bg"),
    *("metadata_csum", "dir_index", "filetype", "extent", "ext_attr", "dir_nlink", "large_file", "huge_file"),
    *("large_dir", "extra_isize"),
)
"""Features that a target gets where the original has them. What other features keep is laid as space in use."""
OF_EXT3 = {
    *("has_journal", "ext_attr", "resize_inode", "dir_index", "dir_prealloc", "imagic_inodes", "filetype"),
    *("needs_recovery", "meta_bg", "sparse_super", "large_file"),
}
"""Features that ext3 has too: libblkid calls ext4 what has another one."""
WITHOUT = {"bigalloc": "clusters of several blocks", "journal_dev": "a journal of other file systems"}
MOST_WITHOUT_64BIT = 1 << 32
MKFS_JOURNAL_BLOCKS = 1 << 18  # the most that mkfs.ext4 chooses by itself
LEAST_LOG_BYTES = 64 << 20  # mkfs.xfs 6.0 and later make a smaller log only where told so; those of before are smaller
LEAST_XFS_BYTES = 300 << 20  # and a smaller file system
SECTOR_BYTES = 512
OTHER_BYTES = 64 << 20
"""For tables of inodes, directories and a few bitmaps of inodes."""
MOST_INODES = (1 << 32) - 1
ALIKE_XFS = ("finobt", "rmapbt", "reflink", "inobtcount")
XfsFeature = Annotated[str, Check(lambda word: word in ALIKE_XFS, f"one of {', '.join(ALIKE_XFS)}")]
Feature = Annotated[str, Check(lambda word: word in ALIKE, f"one of {', '.join(ALIKE)}")]


Kind = TypeVar("Kind", bound="Made")


@dataclass(frozen=True)
class Made:
    """The blocks of every file system."""

    blocks: Positive
    block_bytes: Positive

    @classmethod
    def from_json(cls: type[Kind], value: object, where: str) -> Kind:
        """Out of a declaration. Raises Unacceptable, also for what no target can be."""
        made: Kind = read_block(cls, value, where)
        made.check(where)
        return made

    def check(self, where: str) -> None:
        """Raise Unacceptable for what no target can be."""
        if self.block_bytes != BLOCK_BYTES:
            raise Unacceptable(f"{where}.block_bytes is {self.block_bytes}: {BLOCK_BYTES} is wanted")

    @property
    def device_bytes(self) -> int:
        """The size of the file system."""
        return self.blocks * self.block_bytes


@dataclass(frozen=True)
class XfsGeometry(Made):
    """Sizes of groups, inodes, sectors and the log, the group that has the log, features; None: as mkfs chooses.

    `stride`, `stripe_blocks`: of RAID, to which files are aligned; 0 without.
    """

    group_blocks: Positive
    inode_bytes: Annotated[int, between(256, 2048, "a whole number")] | None = None
    log_blocks: Positive | None = None
    log_group: Count | None = None
    sector_bytes: Annotated[int, between(512, BLOCK_BYTES, "a whole number")] | None = None
    features: list[XfsFeature] | None = None
    stride: Count = 0
    stripe_blocks: Count = 0

    def words(self) -> list[str]:
        """The options of mkfs.xfs."""
        options = ["-d", f"size={self.device_bytes},agsize={self.group_blocks * self.block_bytes}"]
        if self.stride:
            sectors = self.block_bytes // SECTOR_BYTES
            options += ["-d", f"sunit={self.stride * sectors},swidth={self.stripe_blocks * sectors}"]
        if self.sector_bytes:
            options += ["-s", f"size={self.sector_bytes}"]
        if self.inode_bytes:
            options += ["-i", f"size={self.inode_bytes}"]
        if self.log_blocks:
            group = "" if self.log_group is None else f",agnum={self.log_group}"
            options += ["-l", f"size={self.log_blocks * self.block_bytes}{group}"]
        small = self.device_bytes < LEAST_XFS_BYTES
        if small or (self.log_blocks and self.log_blocks * self.block_bytes < LEAST_LOG_BYTES):
            options.append("--unsupported")
        if self.features is not None:
            options += ["-m", ",".join(f"{word}={int(word in self.features)}" for word in ALIKE_XFS)]
        return options


@dataclass(frozen=True)
class Geometry(Made):
    """Sizes and features. `journal_blocks`: 0 where mkfs chooses; `stride`, `stripe_blocks`: of RAID, 0 without."""

    group_blocks: Annotated[int, between(256, 65528, "a whole number")]
    inodes: Annotated[int, between(1, MOST_INODES, "a whole number")]
    inode_bytes: Annotated[int, between(128, BLOCK_BYTES, "a whole number")]
    features: list[Feature]
    flex_groups: Positive = 1
    reserved_gdt_blocks: Count = 0
    journal_blocks: Count = 0
    stride: Count = 0
    stripe_blocks: Count = 0

    def check(self, where: str) -> None:
        super().check(where)
        if self.blocks >= MOST_WITHOUT_64BIT and "64bit" not in self.features:
            raise Unacceptable(
                f"{where}.blocks is {self.blocks}: without feature 64bit fewer than {MOST_WITHOUT_64BIT} are wanted"
            )

    @property
    def groups(self) -> int:
        """Number of block groups."""
        return -(-self.blocks // self.group_blocks)

    @property
    def made_bytes(self) -> int:
        """What mkfs writes: the journal, and descriptors with their copies (sparse_super)."""
        copies = 2 + sum(1 for base in (3, 5, 7) for power in range(1, 32) if base**power < self.groups)
        journal_bytes = (self.journal_blocks or MKFS_JOURNAL_BLOCKS) * self.block_bytes
        return journal_bytes + self.groups * 64 * copies + OTHER_BYTES

    @property
    def laid_bytes(self) -> int:
        """What it holds once all block bitmaps are written."""
        return self.made_bytes + self.groups * self.block_bytes

    def words(self) -> list[str]:
        """The options of mkfs.ext4, but for the number of blocks, which follows the device."""
        features = [word for word in ALIKE if word in self.features]
        if "metadata_csum" not in features and "uninit_bg" not in features:
            features.append("uninit_bg")  # or all tables of inodes would be written; it moves nothing
        options = ["-b", str(self.block_bytes), "-g", str(self.group_blocks), "-I", str(self.inode_bytes)]
        options += ["-N", str(self.inodes), "-O", ",".join(["none", *features])]
        if "flex_bg" in features:
            options += ["-G", str(self.flex_groups)]
        if "has_journal" in features and self.journal_blocks:
            options += ["-J", f"size={self.journal_blocks * self.block_bytes >> 20}"]
        return options

    def extended(self) -> list[str]:
        """The extended options, for `-E`."""
        options = [f"stride={self.stride}"] if self.stride else []
        options += [f"stripe_width={self.stripe_blocks}"] if self.stripe_blocks else []
        if "resize_inode" in self.features:
            descriptors = self.block_bytes // (64 if "64bit" in self.features else 32)  # of a block
            most = (-(-self.groups // descriptors) + self.reserved_gdt_blocks) * descriptors * self.group_blocks
            options.append(f"resize={min(most, MOST_WITHOUT_64BIT - 1)}")
        return options


def of_fields(fields: dict[str, str]) -> Json | None:
    """The geometry in the header of dumpe2fs, as JSON; None where the header does not say all of it."""
    names = {
        "blocks": "Block count",
        "block_bytes": "Block size",
        "group_blocks": "Blocks per group",
        "inodes": "Inode count",
        "inode_bytes": "Inode size",
        "flex_groups": "Flex block group size",
        "reserved_gdt_blocks": "Reserved GDT blocks",
        "journal_blocks": "Total journal blocks",
        "stride": "RAID stride",
        "stripe_blocks": "RAID stripe width",
    }
    geometry: Json = {key: int(fields[name]) for key, name in names.items() if fields.get(name, "").isdigit()}
    needed = list(names)[:5]
    if "Filesystem features" not in fields or not geometry.keys() >= set(needed):
        return None
    features = set(fields["Filesystem features"].split())
    geometry["features"] = [word for word in (*ALIKE, *WITHOUT) if word in features]
    return geometry


def ext_of_fields(fields: dict[str, str]) -> tuple[str, str | None]:
    """What the header of dumpe2fs says: ext2, ext3 or ext4, and why no copy is like it; None where nothing says so."""
    features = set(fields.get("Filesystem features", "extent").split())
    name = "ext3" if "has_journal" in features else "ext2"
    if not features <= OF_EXT3:
        name = "ext4"
    unlike = _unlike(features)
    if not unlike and "extent" not in features:
        unlike = f"it is {name} without extents (feature extent): it maps files block by block, and no target does"
    return name, unlike


def _unlike(features: Collection[str]) -> str | None:
    for word, what in WITHOUT.items():
        if word in features:
            return f"it has feature {word} ({what}), which no target can have"
    return None


def why_not(kind: type[Made], geometry: Json | None) -> str | None:
    """Why no target can be made like this file system; None where one can."""
    if geometry is None and kind is XfsGeometry:
        return None  # as mkfs chooses, which is mostly the same
    if geometry is None:
        return "its text does not say how it was made (the header of dumpe2fs does)"
    unlike = _unlike(geometry.get("features") or ())
    if unlike:
        return unlike
    try:
        kind.from_json(geometry, "its geometry")
    except Unacceptable as why:
        return str(why)
    return None
