"""What is tried, and the assignment of a phase: TASK.json."""

from __future__ import annotations

from dataclasses import dataclass

from fsage.api.model import MIB

INODE = "inode"
DIRECTORY = "directory"
TREE = "tree"
PIECES = {"piece_2m": 2 * MIB, "piece_32m": 32 * MIB, "piece_256m": 256 * MIB}
WORDS = {
    INODE: "a new file's inode (XFS: a chunk of them)",
    DIRECTORY: "a directory's block",
    TREE: "a block of an extent tree",
    "piece_2m": "2 MiB in one piece",
    "piece_32m": "32 MiB in one piece",
    "piece_256m": "256 MiB in one piece",
}
"""All that is tried, in words."""


@dataclass(frozen=True)
class Assignment:
    """In which folder, how many times all is tried while what is free is used up, and by how large requests that is."""

    folder: str
    looks: int
    request_bytes: int
