"""Small real file systems on loop devices, and files in a known number of pieces on them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from session import PREFIX

from fsage.host.system import mounting

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


class Small:
    """A file system in an image, mounted at `point`."""

    def __init__(self, filesystem: str, image: Path, point: Path) -> None:
        self.filesystem, self.image, self.point = filesystem, image, point

    def mount(self, options: str = "loop") -> None:
        """Mount it."""
        subprocess.run(["mount", "-o", options, str(self.image), str(self.point)], check=True)

    def check(self) -> None:
        """Assert that it is clean; it must not be mounted."""
        checked = subprocess.run(
            [*CHECK[self.filesystem], str(self.image)], capture_output=True, text=True, check=False
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


@contextlib.contextmanager
def small(filesystem: str, point: Path, *options: str, size: int = 320 * MIB) -> Iterator[Small]:
    """A new file system, mounted at `point`; in the end it is unmounted, must be found clean, and is deleted."""
    with tempfile.TemporaryDirectory(prefix=f"fsage-test-{PREFIX}small-", dir="/var/tmp") as folder:
        made = Small(filesystem, Path(folder) / f"fsage-{PREFIX}small", point)
        made.image.touch()
        os.truncate(made.image, size)
        subprocess.run([*MAKE[filesystem], *options, str(made.image)], check=True, capture_output=True)
        point.mkdir()
        made.mount()
        try:
            yield made
        finally:
            mounting.unmount(point)
        made.check()


@contextlib.contextmanager
def mounted(image: Path, options: str = "loop") -> Iterator[Path]:
    """The file system in an image, mounted beside it."""
    point = image.parent / "mount"
    point.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", options, str(image), str(point)], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


def fragmented(pieces: dict[Path, int], piece_bytes: int = 1 << 14) -> list[Path]:
    """Make files of so many pieces: each laid out in turns with a second file, and written over.

    The second files go when all are made, or the next file would fill their places.
    """
    for path, number in pieces.items():
        with open(path, "wb") as file, open(_between(path), "wb") as other:
            for offset in range(0, number * piece_bytes, piece_bytes):
                os.posix_fallocate(file.fileno(), offset, piece_bytes)
                os.posix_fallocate(other.fileno(), offset, piece_bytes)
            file.write(os.urandom(number * piece_bytes))
            file.flush()
            os.fsync(file.fileno())
    for path in pieces:
        _between(path).unlink()
    return list(pieces)


def _between(path: Path) -> Path:
    return path.with_name(f"{path.name}.between")
