"""What a directory offers: free space, the type of its file system, and whether that serves O_DIRECT."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import uuid
from pathlib import Path

from fsage.host.system import mounting
from fsage.host.system import places as owned
from fsage.host.system.shell import run
from fsage.model.errors import Refusal

CANDIDATES = ("/var/lib/fsage/images", "/var/tmp/fsage", "/srv/fsage", "/home/fsage", "/opt/fsage")
MEMORY = ("tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs")  # some take O_DIRECT, and mean nothing by it
MEMORY_DEVICES = ("zram", "ram")  # /dev/zram0, /dev/ram0: a file system on them is in memory too


def why_no_direct_io(directory: Path) -> str | None:
    """Why files here cannot be written to a disk with O_DIRECT, found by trying; None when they can."""
    if why := why_memory(directory):
        return why
    probe = directory / f".fsage-direct-{uuid.uuid4().hex}"  # hosts that share it have processes of the same number
    buffer = mmap.mmap(-1, 4096)
    try:
        descriptor = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT, 0o600)
        try:
            os.write(descriptor, buffer)
        finally:
            os.close(descriptor)
    except OSError as error:
        return f"{directory} ({fs_type(directory)}) does not serve O_DIRECT: {error.strerror}"
    finally:
        buffer.close()
        with contextlib.suppress(OSError):
            os.unlink(probe)
    return None


def why_memory(directory: Path) -> str | None:
    """Why this directory is in memory; None when it is on a disk."""
    number = os.stat(directory).st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
    for kind in (fs_type(directory), device):
        if kind in MEMORY or kind.rstrip("0123456789") in MEMORY_DEVICES:
            return f"{directory} is on {kind}, which is memory, not a disk"
    return None


def existing(path: Path | str) -> Path:
    """`path`, or its nearest ancestor that exists."""
    path = Path(path)
    return path if path.is_dir() else existing(path.parent)


def free_bytes(path: Path | str) -> int:
    """Bytes that a user may still write on the file system that holds `path`, or will hold it."""
    stat = os.statvfs(existing(path))
    return stat.f_bavail * stat.f_frsize


def fs_type(path: Path) -> str:
    """The file system that holds `path`, as /proc names it; in a chroot, whose root is no mount, as stat(1) does."""
    path = path.resolve()
    inside = [m for m in mounting.mounts() if path == Path(m.point) or Path(m.point) in path.parents]
    if not inside:
        stat = shutil.which("stat", path=os.defpath) or "stat"  # whatever PATH this process has
        return run([stat, "--file-system", "--format=%T", str(path)]).stdout.strip()
    return max(inside, key=lambda m: len(m.point)).type


def places(declared: str | None) -> tuple[list[Path], list[str]]:
    """Directories that can hold images, that with most free space first, and why the others cannot."""
    good, bad = [], []
    for place in map(Path, [declared] if declared else CANDIDATES):
        parent = existing(place)
        if not declared and parent not in (place, place.parent) and place != Path(CANDIDATES[0]):
            continue
        if why := why_memory(parent):
            bad.append(why)
            continue
        try:
            owned.check(place)
        except Refusal as refusal:
            bad.append(str(refusal))
            continue
        if not os.access(parent, os.W_OK):
            bad.append(f"{place} cannot be written")
        elif why := why_no_direct_io(parent):
            bad.append(why)
        else:
            good.append(place)
    return sorted(good, key=free_bytes, reverse=True), bad
