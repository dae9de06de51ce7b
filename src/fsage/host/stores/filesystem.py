"""The interface of a local file system: made, mounted, settled, read, defragmented (fsage.host.filesystems)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fsage.base import Failure, Json
from fsage.layouts.extents import Extents
from fsage.layouts.machine import Mount
from fsage.model import filesystems as facts

Range = tuple[int, int]
"""A file's first byte, and the one after its last."""


class Mover(ABC):
    """The file system's own call that moves a range of a file, atomically."""

    name: str
    donor = True
    """Whether it takes the new blocks from another open file, which has them at the same place."""
    wants = "the kernel refuses it"
    """What the call needs, for the message where it fails."""

    @abstractmethod
    def move(self, descriptor: int, donor: int, part: Range) -> None:
        """Move a range of an open file; `donor` is -1 where none is taken. Raises OSError."""


class Preallocation(ABC):
    """How many bytes a file is given at a time, where that can be set; 0: as the file system likes."""

    @abstractmethod
    def option(self, size_bytes: int) -> str:
        """The mount option that goes with it, as the kernel lists it; empty for 0."""

    @abstractmethod
    def words(self, size_bytes: int) -> str:
        """The setting as text; `none` for 0."""

    @abstractmethod
    def size_at(self, mount: Path) -> int:
        """Bytes that files made in this directory get at a time; 0: not set. Raises OSError."""

    @abstractmethod
    def give(self, directory: Path, size_bytes: int) -> None:
        """Set it for files that will be made in this directory, and read it back. Raises Failure."""

    @abstractmethod
    def directories(self, mount: Path) -> list[Path]:
        """The directories of a store for which it must be set."""

    @abstractmethod
    def in_place(self, mounts: Sequence[Path], options: Sequence[str], size_bytes: int) -> bool:
        """Whether every store, mounted with these options, has it everywhere. Raises OSError."""


class FileSystem(facts.FileSystem, ABC):
    """A local file system that a target can have: what can be done with it."""

    programs: tuple[str, ...] = ()
    """Programs that must be installed to make one."""
    # Discard stays off everywhere: it would punch holes into the image, and first writes into holes are slow.
    options = "nodiscard"
    """Its mount options."""

    sparse_option = ""
    """A mount option more on a sparse image."""
    mover: Mover | None = None
    preallocation: Preallocation | None = None
    frees_parts = True
    """Whether a hole that is punched into a file frees its blocks at once."""
    no_preallocation = "nothing is known of its preallocation"
    """Why there is no `preallocation` to set."""

    def still_option(self, device: str) -> str:
        """A mount option that keeps the kernel from work of its own beside a cell, if it knows that; or nothing."""
        return ""

    @abstractmethod
    def make_command(self, fs_uuid: str, hash_seed: str) -> list[str]:
        """The command that makes one with this UUID; the device is appended. `hash_seed`: a UUID, always the same."""

    def make_sparse_command(self, fs_uuid: str, hash_seed: str, geometry: Json | None = None) -> list[str]:
        """The same for a sparse image, where nothing is written that is not needed; `geometry`: made like another."""
        return self.make_command(fs_uuid, hash_seed)

    def after_device(self, geometry: Json | None) -> list[str]:
        """Words of that command after the device."""
        return []

    def restoring(self, image: str, raw: str, fs_uuid: str) -> list[list[str]]:
        """Commands that restore a metadata image into a file, have its fsck look at that, and give it this UUID.

        Raises Failure.
        """
        raise Failure(f"of {self.title} no metadata image is restored")

    def superblock(self, raw: str) -> list[str]:
        """The command that prints the superblock of one in a file."""
        raise Failure(f"of {self.title} no superblock is read")

    def why_more_than_itself(self, superblock: str) -> str | None:
        """What in its superblock refers to another device or sets mount options of its own; None: nothing does."""
        raise Failure(f"of {self.title} no superblock is read")

    def mounted(self, device: str, warm: bool | None = None) -> None:
        """Prepare it after a mount; `warm`: with all that its allocator reads in memory, or with nothing of it."""
        return

    def allocator_counts(self, device: str) -> dict[str, int]:
        """What its allocator has done since it was mounted, by counters' names. Raises OSError, ValueError, Failure."""
        raise Failure(f"{self.title} does not count what its allocator does")

    def is_on(self, device: str, mount: Mount, point: Path) -> bool:
        """Whether the mount at `point` is of this block device."""
        return os.stat(point).st_dev == os.stat(device).st_rdev

    def take_free(self, device: str, choose: Callable[[Extents], Extents]) -> None:
        """Mark free blocks as in use, while it is mounted nowhere (takes_blocks). `choose` says which of the free ones.

        Raises Failure, OSError.
        """
        raise Failure(f"blocks of {self.title} are not taken")

    def settle(self, mount: Path) -> None:
        """Wait until it has completed its work in the background after a sync. Raises Failure."""
        return

    def counted(self, mount: Path, space: os.statvfs_result) -> str | None:
        """Counts that repeat exactly while nobody writes, for the fingerprint of a state; None: there are none."""
        return None

    def keep_in_place(self, image: int) -> bool:
        """Have it keep the blocks of an open, empty image where they are; False: it does without a setting."""
        return False

    def temporaries(self, path: Path) -> Iterable[str]:
        """Names of empty files that its defragmenter may leave beside a file when it is killed."""
        return ()
