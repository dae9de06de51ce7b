"""Control groups of targets: where they are, made and weighed, entered by this process, removed.

Kernel documentation: Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/blkio-controller.rst.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from fsage.api.host import Journal, kernel, locked
from fsage.api.model import Failure
from fsage.layouts import machine

PREFIX = "fsage-"
SHARED = Journal(Path("/run/fsage/shared.json"))
"""Settings that all targets of a machine share: a controller that was moved from cgroup v1, and `io` that groups may
use. They are undone with the last group of any target."""
SHARED_LOCK = Path("/run/fsage/shared.lock")
PATIENCE_S = 5.0  # a killed process may still complete a transfer


def root() -> Path | None:
    """The root group of cgroup v2, if this process can reach it. Only the real root has no cgroup.events."""
    for mount in machine.mounts():
        if mount.type == "cgroup2" and mount.root == "/" and not os.path.exists(mount.point + "/cgroup.events"):
            return Path(mount.point)
    return None


def v1() -> Path | None:
    """The mount point of cgroup v1's block I/O controller; None without one."""
    for mount in machine.mounts():
        if mount.type == "cgroup" and mount.root == "/" and "blkio" in mount.super_options.split(","):
            return Path(mount.point)
    return None


def hierarchy(version: str) -> Path:
    """The root of the block I/O controller's groups in cgroup `v1` or `v2`. Raises Failure."""
    hierarchy = v1() if version == "v1" else root()
    if hierarchy is None:
        raise Failure(f"the root of cgroup {version} cannot be reached here, or has no block I/O controller any more")
    return hierarchy


def path_of(name: str, version: str = "v2") -> Path:
    """The directory of the group of this name. Raises Failure."""
    return hierarchy(version) / (PREFIX + name)


def names() -> list[str]:
    """The names of the groups of fsage's targets in cgroup v2 on this machine."""
    top = root()
    if top:
        return sorted(group.name for group in top.glob(PREFIX + "*") if group.is_dir())
    return []


@contextlib.contextmanager
def inside(group: Path) -> Iterator[None]:
    """Have this process in a group while the block runs, and whatever it starts meanwhile for good.

    What it starts is there from its first instruction, and takes no time to come there. Raises Failure where the group
    has gone.
    """
    before = group_of(os.getpid(), group)
    join(str(group))
    try:
        yield
    finally:
        join(str(before))


def join(group: str) -> None:
    """Move this process into a group. Raises Failure."""
    try:
        write(Path(group) / "cgroup.procs", str(os.getpid()))
    except Failure as why:
        raise Failure(f"{why}{'' if Path(group).is_dir() else '; somebody removed it'}") from why


def group_of(pid: int, like: Path) -> Path:
    """The group of a process in the hierarchy to which another group belongs. Raises Failure."""
    top = next((hierarchy for hierarchy in (root(), v1()) if hierarchy is not None and hierarchy in like.parents), None)
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if top is not None and (not controllers if top == root() else "blkio" in controllers.split(",")):
            return top / path.lstrip("/")
    raise Failure(f"{like} is in no hierarchy of control groups that is mounted here")


def weigh(name: str, version: str, weight: int) -> None:
    """Set the weight of a group; a group of cgroup v1 is made first. Raises Failure."""
    group = path_of(name, version)
    if version == "v1":
        with locked(SHARED_LOCK):
            group.mkdir(exist_ok=True)
        write(group / f"{v1_prefix(group)}weight", str(weight))
        return
    for file in (group / "io.weight", group / "io.bfq.weight"):  # IOCost's or CFQ's, and BFQ's
        if file.exists():
            write(file, f"default {weight}")


def v1_prefix(group: Path) -> str:
    """The prefix of a group's files in cgroup v1: with BFQ's name, or as CFQ had them."""
    if (group / "blkio.bfq.weight").exists():
        return "blkio.bfq."
    return "blkio."


def remove(path: str) -> str:
    """Remove a group; a sentence on that. Raises Failure naming the processes that are in it."""
    group = Path(path)
    for last in kernel.attempts(PATIENCE_S, 0.05):
        if not group.is_dir():
            break
        try:
            group.rmdir()
            break
        except OSError as error:
            if last or error.errno != errno.EBUSY:
                inside = ", ".join(words(group / "cgroup.procs")) or "none"
                raise Failure(
                    f"removing the control group {group}: {error.strerror}; processes in it: {inside}"
                ) from error
    return f"the control group {group} is gone"


def words(path: Path) -> list[str]:
    """The words in a file of a group; none where there is no such file, or no such group any more."""
    try:
        return path.read_text().split()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return []
        raise


def write(path: Path, text: str, missing_ok: bool = False) -> None:
    """Write a command to a file of a group in one write(2). Raises Failure."""
    try:
        with kernel.opened(path, os.O_WRONLY) as descriptor:
            os.write(descriptor, text.encode())
    except OSError as error:
        if not (missing_ok and error.errno in (errno.ENODEV, errno.ENOENT)):
            raise Failure(f"writing {text!r} to {path}: {error.strerror}") from error
