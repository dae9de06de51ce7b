"""The local file systems that a target can have (fsage.model.filesystems): their interface, and what all share.

The interface says how a file system is made, mounted, settled, read and defragmented. Each is a module of this package
or of a study's `host`, found by its name, with `FILESYSTEM`, a FileSystem. All are made with a UUID that is known
before, mounted by mount(2) where nothing else is, and told apart by that UUID.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fsage.base import Failure, Json, Refusal
from fsage.base.shell import run
from fsage.host.system import caches, mounting, places
from fsage.host.system.fanotify import FileWatch
from fsage.host.system.mounting import MS_NOATIME, MS_NODEV, MS_NOEXEC, MS_NOSUID, uuid_on, wipe
from fsage.layouts import machine
from fsage.layouts.extents import Extents
from fsage.layouts.machine import Mount
from fsage.model import filesystems as facts
from fsage.model import plugins

if TYPE_CHECKING:
    from fsage.host.filesystems.xfs import ExtentSize

PACKAGE = "fsage.host.filesystems"
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
    preallocation: ExtentSize | None = None
    """How many bytes a file is given at a time, where that can be set."""
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


class Taken(NamedTuple):
    """What a call took: seconds, and of them the processor's in the call itself."""

    seconds: float
    cpu_s: float


def get(name: str | None) -> FileSystem | None:
    """The file system of this name; None where a target cannot have it."""
    known = facts.get(name)
    if known:
        return named(known.name)
    return None


def named(name: str) -> FileSystem:
    """The file system of this name. Raises Refusal where there is none."""
    system: FileSystem = plugins.module(PACKAGE, "host", facts.named(name).name).FILESYSTEM
    return system


def like(name: str | None) -> FileSystem | None:
    """The file system as which one with this name of the kernel's is read; None where it cannot be."""
    known = facts.like(name)
    if known:
        return named(known.name)
    return None


def is_known_here(name: str) -> bool:
    """Whether this machine's kernel has it, or a module of it."""
    with open("/proc/filesystems") as table:
        if any(line.split()[-1] == name for line in table):
            return True
    probe = ["modprobe", "--dry-run", "--quiet", name]
    return bool(shutil.which("modprobe")) and subprocess.run(probe, capture_output=True, check=False).returncode == 0


def make(
    filesystem: str,
    device: str,
    fs_uuid: str,
    hash_seed: str,
    sparse: bool = False,
    geometry: Json | None = None,
    options: str = "",
) -> None:
    """Make a file system with this UUID on a device that the caller has verified to be the target's own.

    `sparse`: blocks that were never written take no room below. `geometry`: it is made like another one.
    `options`: of mkfs, more than those. Raises Failure, Refusal.
    """
    system = named(filesystem)
    if sparse:
        command = system.make_sparse_command(fs_uuid, hash_seed, geometry)
    else:
        command = system.make_command(fs_uuid, hash_seed)
    command = with_options(command, options, system.mkfs_letters)
    if uuid_on(device) == fs_uuid:  # an mkfs that was killed; mkfs.btrfs would refuse the UUID as taken
        wipe(device)
    run([*command, device, *system.after_device(geometry)])
    uuid = uuid_on(device)
    if uuid != fs_uuid:
        raise Failure(
            f"{command[0]} on {device} ended well, but the UUID found there is {uuid or 'none'}, not {fs_uuid}"
        )


OTHER_FILES = ("name", "file", "logdev", "rtdev")
"""Keys of mkfs.xfs that name other files or devices."""


def with_options(command: Sequence[str], options: str, letters: str) -> list[str]:
    """The command of mkfs with options more. Raises Refusal.

    Values of one option are joined as mkfs takes them, by commas, because the last one alone would count. What the
    options set counts, and not what the command has for the same key.
    """
    words = shlex.split(options)
    if len(words) % 2:
        words.append("")  # an option without a value, which is refused
    allowed = [f"-{letter}" for letter in letters]
    found = list(command)
    for option, value in zip(words[::2], words[1::2]):
        given = {part.partition("=")[0]: part for part in value.split(",")}
        if option not in allowed or not value or "/" in value or not given.keys().isdisjoint(OTHER_FILES):
            asked = f"{option} {value}".strip()
            raise Refusal(
                f"{command[0]}: {asked} is not allowed. Allowed are {', '.join(allowed)}, without files and devices"
            )
        if option in found:
            place = found.index(option) + 1
            before = {part.partition("=")[0]: part for part in found[place].split(",")}
            if "=" in found[place]:
                value = ",".join({**before, **given}.values())
            found[place] = value
        else:
            found += [option, value]
    return found


def mount(
    filesystem: str,
    device: str,
    point: Path,
    more: str = "",
    watch: FileWatch | None = None,
    warm: bool | None = None,
) -> Taken:
    """Mount `device` at `point`, which must be an empty directory with nothing mounted on it; `more`: options.

    `watch` goes on with it. `warm`: see FileSystem.mounted. Returns what the call took.
    """
    mounting.refuse_occupied(point, device)
    places.make(point)
    options = named(filesystem).options + (more and f",{more}")
    still = named(filesystem).still_option(device) if warm is None else ""
    deadline = time.monotonic() + mounting.PATIENCE_S
    while True:
        try:
            with watch.mounting(device) if watch else contextlib.nullcontext():
                flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME
                began = _now()
                mounting.mount_call(device, str(point), filesystem, flags, f"{options},{still}" if still else options)
            taken = _since(began)
            break
        except OSError as error:
            if error.errno == errno.EINVAL and still:  # this kernel does not know it
                still = ""
                continue
            # Busy: another command looks at the device for a moment, to be told to keep off.
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise Failure(f"mounting {device} ({filesystem}) at {point}: {error.strerror}") from error
            time.sleep(0.02)
    named(filesystem).mounted(device, warm)
    return taken


def remount(
    filesystem: str,
    device: str,
    point: Path,
    more: str = "",
    watch: FileWatch | None = None,
    warm: bool | None = None,
) -> tuple[Taken, Taken]:
    """Unmount and mount again, so that nothing is known of the file system and its allocator starts anew.

    `watch` goes on after it. Returns what umount and mount took.
    """
    began = _now()
    mounting.unmount(point)
    unmounted = _since(began)
    # Where another namespace pins the mount, it only seems to end, and nothing would start anew.
    mounting.refuse_if_in_use(device)
    if watch:
        watch.unmounted(device)
    caches.drop_device(device)
    return unmounted, mount(filesystem, device, point, more, watch, warm)


def _now() -> Taken:
    return Taken(time.monotonic(), time.thread_time())


def _since(began: Taken) -> Taken:
    now = _now()
    return Taken(now.seconds - began.seconds, now.cpu_s - began.cpu_s)


def verify(filesystem: str, device: str, fs_uuid: str, point: Path) -> None:
    """Raise Refusal unless the kernel has `device` with `fs_uuid` mounted at `point`."""
    mount = machine.mounted_at(point)
    if mount is None:
        raise Refusal(f"{point}: nothing is mounted there; {device} (UUID {fs_uuid}) was expected")
    if mount.type != filesystem or not named(filesystem).is_on(device, mount, point):
        raise Refusal(
            f"{point}: {mount.source} ({mount.type}) is mounted there, not {device} ({filesystem}, UUID {fs_uuid})"
        )
    uuid = mounting.uuid_mounted(point) or uuid_on(device)
    if uuid != fs_uuid:
        raise Refusal(
            f"{point}: the UUID of the file system mounted there is {uuid}, not {fs_uuid}: it is not the "
            "one that was made here"
        )


@contextlib.contextmanager
def one_cpu() -> Iterator[None]:
    """Keep the calling thread on one CPU, so that ext4 puts small files into the same places each time.

    ext4 serves files of up to 64 KiB from a preallocation of the present CPU (locality groups, fs/ext4/mballoc.c). On
    another CPU the thread would open another preallocation, 2 MiB further on, and all later files would lie elsewhere.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
