"""Control groups of those who share a target's device: made with a weight, counted by the kernel, ended.

Kernel documentation: Documentation/admin-guide/cgroup-v2.rst (io.stat, io.weight), cgroup-v1/blkio-controller.rst.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import NamedTuple

from fsage.host.device import cgroups, iocost
from fsage.host.system import journal
from fsage.host.targets.target import Target
from fsage.model.errors import Failure
from fsage.model.request import Group, IoGroups


class Counted(NamedTuple):
    """What a group has read from the target's devices: bytes, I/Os, and the time that IOCost charged it, in us."""

    read_bytes: int
    ios: int
    cost_us: int


def v1_unavailable_because() -> str | None:
    """Why there can be no groups of cgroup v1 here; None when there can."""
    why = cgroups.unavailable_because()
    if why:
        return f"no shares by weight in cgroup v1: {why}"
    if cgroups.v1() is None:
        return "cgroup v1 does not hold the block I/O controller here, or it is not mounted"
    return None


def make(target: Target, io_groups: IoGroups, reader: Group) -> Path:
    """A reader's control group with its weight, made if it is not there; the cost model in place, or off.

    `io_groups`: the phase's `io_groups`; `reader`: an entry of its `groups`. Raises Refusal, Failure.
    """
    name = f"{target.name}.{reader['name']}"
    version = io_groups["cgroup"]
    folder = cgroups.path_of(name, version)
    if version == "v2":
        cost = io_groups["cost"]
        iocost.put(target.home, name, target.devices if cost else [], {**cost} if cost else {})
    else:
        journal.note(journal.path_of(target.home), {"kind": "v1_group", "path": str(folder)})
    cgroups.weigh(name, version, reader["weight"])
    return folder


def counted(target: Target, group: Path) -> Counted:
    """What a group has read so far. Raises Failure where the group has vanished."""
    numbers = {iocost.number_of(device) for device in target.devices}
    read_bytes = ios = cost_us = 0
    try:
        if not (group / "io.stat").exists() and (group / f"{cgroups.v1_prefix(group)}io_serviced").exists():
            left = []
            for name in ("io_service_bytes", "io_serviced"):
                text = (group / f"{cgroups.v1_prefix(group)}{name}").read_text(encoding="ascii")
                lines = [line.split() for line in text.splitlines()]
                left.append(sum(int(words[2]) for words in lines if words[0] in numbers and words[1] == "Read"))
            return Counted(left[0], left[1], 0)
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
        starting = str(os.getpid())  # who is about to start a reader is there for a moment
        for pid in set(cgroups.words(group / "cgroup.procs")) - {starting}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def left_over(home: Path) -> list[Path]:
    """The readers' groups that are noted."""
    entries = journal.entries(journal.path_of(home))
    noted = [Path(entry["path"]) for entry in entries if entry["kind"] in ("group", "v1_group")]
    return [group for group in noted if group.name.startswith(f"{cgroups.PREFIX}{home.name}.")]
