"""Small real file systems on loop devices, and files in a known number of pieces on them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conftest import PREFIX

from fsage.agent import filesystems

MIB = 1 << 20
MAKE = {
    # Blocks of 4 KiB: so small a file system would get 1 KiB, with which e4defrag takes 12 s for 8 MiB.
    "ext4": ["mkfs.ext4", "-q", "-m", "0", "-b", "4096"],
    "xfs": ["mkfs.xfs", "-q"],
    "btrfs": ["mkfs.btrfs", "-q"],
}
CHECK = {
    "ext4": ["e2fsck", "-fn"],
    "xfs": ["xfs_repair", "-n"],
    "btrfs": ["btrfs", "check", "--readonly"],
}


@contextlib.contextmanager
def mounted(filesystem: str, point: Path, size_mib: int = 320) -> Iterator[Path]:
    """A new file system, mounted at `point`; in the end it is unmounted, and must be found clean and is deleted."""
    with tempfile.TemporaryDirectory(prefix=f"fsage-test-{PREFIX}small-", dir="/var/tmp") as folder:
        image = Path(folder) / f"fsage-{PREFIX}small"
        image.touch()
        os.truncate(image, size_mib * MIB)
        subprocess.run([*MAKE[filesystem], str(image)], check=True, capture_output=True)
        point.mkdir()
        subprocess.run(["mount", "-o", "loop", str(image), str(point)], check=True)
        try:
            yield point
        finally:
            filesystems.unmount(point)
        checked = subprocess.run([*CHECK[filesystem], str(image)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def fragmented(path: Path, pieces: int, piece_bytes: int = 1 << 16, content: bytes | None = None) -> Path:
    """Make a file of so many pieces: laid out in turns with a second file, which then goes, and written over."""
    size, between = pieces * piece_bytes, path.with_name(f"{path.name}.between")
    with open(path, "wb") as file, open(between, "wb") as other:
        for offset in range(0, size, piece_bytes):
            os.posix_fallocate(file.fileno(), offset, piece_bytes)
            os.posix_fallocate(other.fileno(), offset, piece_bytes)
        file.write(content or os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    between.unlink()
    return path
