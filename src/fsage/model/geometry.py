"""How an ext4 was made: what mkfs must be told so that another one has its metadata in the same places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fsage.model.message import Unacceptable
from fsage.model.typed import Check, Count, Json, Positive, between, read_block

BLOCK_BYTES = 4096
"""Blocks that a target can have: a page of memory."""
ALIKE = (
    *("64bit", "flex_bg", "meta_bg", "sparse_super", "sparse_super2", "resize_inode", "has_journal", "uninit_bg"),
    *("metadata_csum", "dir_index", "filetype", "extent", "ext_attr", "dir_nlink", "large_file", "huge_file"),
    *("large_dir", "extra_isize"),
)
"""Features that a target gets where the original has them. What other features keep is in use, and is laid as such."""
WITHOUT = {"bigalloc": "clusters of several blocks", "journal_dev": "a journal of other file systems"}
MOST_WITHOUT_64BIT = 1 << 32
MKFS_JOURNAL_BLOCKS = 1 << 18  # the most that mkfs.ext4 chooses by itself
OTHER_BYTES = 64 << 20
"""For tables of inodes, directories and a few bitmaps of inodes."""
MOST_INODES = (1 << 32) - 1
Feature = Annotated[str, Check(lambda word: word in ALIKE, f"one of {', '.join(ALIKE)}")]


@dataclass(frozen=True)
class Geometry:
    """Sizes and features. `journal_blocks`: 0 where mkfs chooses; `stride`, `stripe_blocks`: of RAID, 0 without."""

    blocks: Positive
    block_bytes: Positive
    group_blocks: Annotated[int, between(256, 65528, "a whole number")]
    inodes: Annotated[int, between(1, MOST_INODES, "a whole number")]
    inode_bytes: Annotated[int, between(128, BLOCK_BYTES, "a whole number")]
    features: list[Feature]
    flex_groups: Positive = 1
    reserved_gdt_blocks: Count = 0
    journal_blocks: Count = 0
    stride: Count = 0
    stripe_blocks: Count = 0

    @classmethod
    def from_json(cls, value: object, where: str) -> Geometry:
        """Out of a declaration. Raises Unacceptable, also for what no target can be."""
        geometry: Geometry = read_block(cls, value, where)
        if geometry.block_bytes != BLOCK_BYTES:
            raise Unacceptable(f"{where}.block_bytes is {geometry.block_bytes}: {BLOCK_BYTES} is wanted")
        if geometry.blocks >= MOST_WITHOUT_64BIT and "64bit" not in geometry.features:
            raise Unacceptable(
                f"{where}.blocks is {geometry.blocks}: without feature 64bit fewer than {MOST_WITHOUT_64BIT} are wanted"
            )
        return geometry

    @property
    def device_bytes(self) -> int:
        """The size of the file system."""
        return self.blocks * self.block_bytes

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
    numbers = {
        "blocks": "Block count",
        "block_bytes": "Block size",
        "group_blocks": "Blocks per group",
        "inodes": "Inode count",
        "inode_bytes": "Inode size",
    }
    more = {
        "flex_groups": "Flex block group size",
        "reserved_gdt_blocks": "Reserved GDT blocks",
        "journal_blocks": "Total journal blocks",
        "stride": "RAID stride",
        "stripe_blocks": "RAID stripe width",
    }
    if not all(fields.get(name, "").isdigit() for name in numbers.values()) or "Filesystem features" not in fields:
        return None
    features = set(fields["Filesystem features"].split())
    return {
        **{key: int(fields[name]) for key, name in numbers.items()},
        **{key: int(fields[name]) for key, name in more.items() if fields.get(name, "").isdigit()},
        "features": [word for word in (*ALIKE, *WITHOUT) if word in features],
    }


def why_not(geometry: Json | None) -> str | None:
    """Why no target can be made like such a file system; None where one can."""
    if geometry is None:
        return "its text does not say how it was made (the header of dumpe2fs does)"
    for word, what in WITHOUT.items():
        if word in geometry["features"]:
            return f"it has feature {word} ({what}), which no target can have"
    try:
        Geometry.from_json(geometry, "its geometry")
    except Unacceptable as why:
        return str(why)
    return None
