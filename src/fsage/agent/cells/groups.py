"""Control groups of those who share a target's device: made with a weight, counted by the kernel, ended.

Kernel documentation: Documentation/admin-guide/cgroup-v2.rst (io.stat, io.weight), cgroup-v1/blkio-controller.rst.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple

from fsage.agent import files, journal, mounting
from fsage.agent.device import iocost
from fsage.agent.errors import Failure
from fsage.agent.target import Target


class Counted(NamedTuple):
    """What a group has read from the target's devices: bytes, I/Os, and the time that IOCost charged it, in us."""

    read_bytes: int
    ios: int
    cost_us: int


def make(target: Target, asked: dict, one: dict) -> Path:
    """A reader's control group with its weight, made if it is not there; the cost model in place, or off.

    `asked`: the phase's `shares`, `one` of its groups. Raises Refusal, Failure.
    """
    name = f"{target.name}.{one['name']}"
    if asked["cgroup"] == "v2":
        cost = asked["cost"]
        iocost.put(target.home, name, target.devices if cost else [], cost or {})
        group = iocost.group_of(name)
        for file in (group / "io.weight", group / "io.bfq.weight"):  # IOCost's or CFQ's, and BFQ's
            if file.exists():
                _write(file, f"default {one['weight']}")
        return group
    root = v1()
    if root is None:
        raise Failure("cgroup v1 does not hold the block I/O controller any more")
    group = root / f"{iocost.PREFIX}{name}"
    with files.locked(journal.SHARED_LOCK):
        journal.note(journal.path_of(target.home), {"kind": "v1_group", "path": str(group)})
        group.mkdir(exist_ok=True)
    _write(group / f"{_v1_prefix(group)}weight", str(one["weight"]))
    return group


def counted(target: Target, group: Path) -> Counted:
    """What a group has read so far. Raises Failure where the group has vanished."""
    numbers = {iocost.number_of(device) for device in target.devices}
    read_bytes = ios = cost_us = 0
    try:
        if not (group / "io.stat").exists() and (group / f"{_v1_prefix(group)}io_serviced").exists():
            found = []
            for name in ("io_service_bytes", "io_serviced"):
                text = (group / f"{_v1_prefix(group)}{name}").read_text(encoding="ascii")
                lines = [line.split() for line in text.splitlines()]
                found.append(sum(int(words[2]) for words in lines if words[0] in numbers and words[1] == "Read"))
            return Counted(found[0], found[1], 0)
        for line in (group / "io.stat").read_text(encoding="ascii").splitlines():
            number, *pairs = line.split()
            if number in numbers:
                values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                read_bytes += int(values.get("rbytes", 0))
                ios += int(values.get("rios", 0))
                cost_us += int(values.get("cost.usage", 0))
    except OSError as error:
        raise Failure(f"the control group {group} cannot be read: {error.strerror}; somebody removed it") from error
    return Counted(read_bytes, ios, cost_us)


def end_readers(home: Path) -> None:
    """End what runs in the readers' groups, which nobody else's process is in."""
    for group in left_over(home):
        for pid in processes(group):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def left_over(home: Path) -> list[Path]:
    """The readers' groups that are noted."""
    entries = journal.entries(journal.path_of(home))
    noted = [Path(entry["path"]) for entry in entries if entry["kind"] in ("group", "v1_group")]
    return [group for group in noted if group.name.startswith(f"{iocost.PREFIX}{home.name}.")]


def processes(group: Path) -> list[str]:
    """Who is in a group; none where it is gone."""
    try:
        return (group / "cgroup.procs").read_text(encoding="ascii").split()
    except OSError:
        return []


def v1() -> Path | None:
    """Where the block I/O controller of cgroup v1 is mounted."""
    for mount in mounting.mounts():
        if mount.type == "cgroup" and mount.root == "/" and "blkio" in mount.super_options.split(","):
            return Path(mount.point)
    return None


def _v1_prefix(group: Path) -> str:
    """BFQ's files of cgroup v1; CFQ's are called so without its name."""
    return "blkio.bfq." if (group / "blkio.bfq.weight").exists() else "blkio."


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="ascii")
    except OSError as error:
        raise Failure(f"writing {text!r} to {path}: {error.strerror}") from error
