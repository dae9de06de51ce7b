"""What this host has to give: memory, and room in a directory.

Memory: what a process may still take, as proc_meminfo(5) and its control groups allow. A directory: free space, the
type of its file system, and whether that serves O_DIRECT.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from fsage.base import Refusal
from fsage.base.shell import run
from fsage.host.system import kernel
from fsage.host.system import places as owned
from fsage.layouts import machine

LIMITS = {
    "cgroup2": ("memory.max", "memory.current", ("inactive_file", "active_file")),
    "cgroup": ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
}
"""Files of a group: its limit, what is charged to it, and the pages of these that the kernel takes back."""


def memory_bytes() -> int:
    """This host's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_bytes() -> int:
    """Memory that this process may still take without another one losing any, on this host and in its groups."""
    with open("/proc/meminfo") as table:
        of_host = next(int(line.split()[1]) << 10 for line in table if line.startswith("MemAvailable:"))
    return min([of_host, *_left_in_groups()])


def _left_in_groups() -> Iterator[int]:
    """Bytes that are left to each group of this process that has a limit (cgroup-v2.rst, cgroup-v1/memory.rst)."""
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    own = dict(line.split(":", 2)[1:] for line in lines)
    for mount in machine.mounts():
        controllers = {"cgroup2": "", "cgroup": "memory"}.get(mount.type)
        if controllers is None or controllers not in own or controllers not in mount.super_options:
            continue
        limit, charged, given_back = LIMITS[mount.type]
        place = Path(own[controllers])
        for group in (Path(mount.point + str(path)) for path in (place, *place.parents)):
            try:
                most = (group / limit).read_text().strip()
                now = int((group / charged).read_text())
                counts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            except OSError:  # the root of the groups has none
                continue
            if most != "max":
                yield max(0, int(most) - now + sum(int(counts.get(name, 0)) for name in given_back))


CANDIDATES = ("/var/lib/fsage/images", "/var/tmp/fsage", "/srv/fsage", "/home/fsage", "/opt/fsage")
MEMORY = ("tmpfs", "ramfs", "rootfs", "devtmpfs", "hugetlbfs")  # some take O_DIRECT, and mean nothing by it
MEMORY_DEVICES = ("zram", "ram")  # /dev/zram0, /dev/ram0: a file system on them is in memory too


def why_no_direct_io(directory: Path) -> str | None:
    """Why files here cannot be written to a disk with O_DIRECT, found by trying; None when they can."""
    why = why_memory(directory)
    if why:
        return why
    probe = directory / f".fsage-direct-{uuid.uuid4().hex}"  # hosts that share it have processes of the same number
    buffer = mmap.mmap(-1, 4096)
    try:
        with kernel.opened(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DIRECT) as descriptor:
            os.write(descriptor, buffer)
    except OSError as error:
        what = "does not serve O_DIRECT" if error.errno == errno.EINVAL else "takes no file"
        return f"{directory} ({fs_type(directory)}) {what}: {error.strerror}"
    finally:
        buffer.close()
        with contextlib.suppress(OSError):
            os.unlink(probe)
    return None


def why_memory(directory: Path) -> str | None:
    """Why this directory is in memory; None when it is on a disk."""
    device = kernel.folder_of(kernel.shown_number(os.stat(directory).st_dev)).resolve().name
    for kind in (fs_type(directory), device):
        if kind in MEMORY or kind.rstrip("0123456789") in MEMORY_DEVICES:
            return f"{directory} is on {kind}, which is memory, not a disk"
    return None


def existing(path: Path | str) -> Path:
    """`path`, or its nearest ancestor that exists."""
    path = Path(path)
    if path.is_dir():
        return path
    return existing(path.parent)


def free_bytes(path: Path | str) -> int:
    """Bytes that a user may still write on the file system that holds `path`, or will hold it."""
    return usable_bytes(existing(path))


def usable_bytes(place: Path) -> int:
    """Bytes that a user may still write on the file system that holds `place`."""
    stat = os.statvfs(place)
    return stat.f_bavail * stat.f_frsize


def unused_bytes(place: Path) -> int:
    """Bytes that nobody uses on the file system that holds `place`, those that only root may use among them."""
    stat = os.statvfs(place)
    return stat.f_bfree * stat.f_frsize


def fs_type(path: Path) -> str:
    """The file system that holds `path`, as /proc names it; in a chroot, whose root is no mount, as stat(1) does."""
    path = path.resolve()
    inside = [m for m in machine.mounts() if path == Path(m.point) or Path(m.point) in path.parents]
    if not inside:
        stat = shutil.which("stat", path=os.defpath) or "stat"  # whatever PATH this process has
        return run([stat, "--file-system", "--format=%T", str(path)]).stdout.strip()
    return max(inside, key=lambda m: len(m.point)).type


def places(declared: str | None) -> tuple[list[Path], list[str]]:
    """Directories that can hold images, that with most free space first, and why the others cannot."""
    good = []
    bad = []
    for place in map(Path, [declared] if declared else CANDIDATES):
        parent = existing(place)
        if not declared and parent not in (place, place.parent) and place != Path(CANDIDATES[0]):
            continue
        why = why_memory(parent)
        if why:
            bad.append(why)
            continue
        try:
            owned.check(place)
        except Refusal as refusal:
            bad.append(str(refusal))
            continue
        if not os.access(parent, os.W_OK):
            bad.append(f"{place} cannot be written")
            continue
        why = why_no_direct_io(parent)
        if why:
            bad.append(why)
        else:
            good.append(place)
    return sorted(good, key=free_bytes, reverse=True), bad
