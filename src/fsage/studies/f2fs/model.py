"""What launcher and hosts know of F2FS, and of counting the requests of reads."""

from __future__ import annotations

from fsage.api.model import filesystems
from fsage.layouts import filesystems as layouts

TASK = "file_requests.json"
"""Input of a phase that reads files by turns: the files, their weights, and how they are read."""


class F2fs(filesystems.FileSystem, layouts.F2fs):
    """F2FS, on one device."""

    check_command = ("fsck.f2fs", "--dry-run")
    mkfs_letters = "aiOosz"
    guests_only = True
    package = "f2fs-tools"
    places_when_written = True

    def metadata_bytes(self, size_bytes: int) -> int:
        """Checkpoints, and tables of segments, nodes and owners of blocks (mkfs.f2fs); and the nodes of its files."""
        return (64 << 20) + size_bytes // 128
