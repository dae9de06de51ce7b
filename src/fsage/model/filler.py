"""The files of a state: the path of each, and the random number that decides when it is deleted."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

Method = Literal["fallocate", "write", "buffered"]
SHARD = 100_000
"""Files of a directory: who lists one has all their names in memory."""
BLOCK_BYTES = 4096
SLACK_BYTES = 1 << 20  # stays free where all is given away: for the target's own token, directories, maps of extents
OWN_BYTES = 32 << 20  # what a file system keeps for itself although it is free: ext4 4096 blocks, XFS 8192


def draw(seed: int | None, generation: int, index: int) -> float:
    """The uniform number u in [0, 1) of one file: those with the lowest are deleted first."""
    key = f"{seed}:{generation}:{index}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=7).digest(), "big") / 2**56


def order(seed: int | None, generation: int, count: int) -> list[int]:
    """Indices of a generation's files in the order in which they are deleted."""
    return sorted(range(count), key=lambda index: draw(seed, generation, index))


def path_of(mounts: list[Path], generation: int, index: int) -> Path:
    """The path of file `index`: files are spread over the stores in turn."""
    return Path(place_of(mounts, generation, index))


def place_of(mounts: list[Path], generation: int, index: int) -> str:
    """The path of a file as text: a million texts take a tenth of the memory of paths."""
    return f"{mounts[index % len(mounts)]}/filler/{folder_of(generation, index)}/{index:07d}"


def folder_of(generation: int, index: int) -> str:
    """The directory of file `index`, below that of all: of a generation that needs several, another for each SHARD."""
    return f"g{generation}.{index // SHARD}" if index >= SHARD else f"g{generation}"
