"""Control groups that share a target's devices by weight, and the devices' I/O scheduler; how both are put back.

Groups are made with a weight, counted by the kernel, and ended. The former I/O scheduler of a target's loop devices is
noted, another is set for a cell, and the former restored. The cost model is put back with them.

Kernel documentation: Documentation/admin-guide/cgroup-v2.rst (io.stat, io.weight), cgroup-v1/blkio-controller.rst,
Documentation/block/switching-sched.rst.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from fsage.api.host import Target, journal_of, kernel, loops, run
from fsage.api.model import Failure, Group, IoGroups, Json, Refusal

from . import cgroups, iocost

OF_BFQ = "iosched/low_latency"
"""A tunable of BFQ's, beside the scheduler."""


class Counted(NamedTuple):
    """What a group has read from the target's devices: bytes, I/Os, and the time that IOCost charged it, in us."""

    read_bytes: int
    ios: int
    cost_us: int


def v1_unavailable_because() -> str | None:
    """Why there can be no groups of cgroup v1 here; None when there can."""
    if os.geteuid():
        return "no shares by weight in cgroup v1: needs root"
    if cgroups.v1() is None:
        return "cgroup v1 does not hold the block I/O controller here, or it is not mounted"
    return None


def make(target: Target, io_groups: IoGroups, reader: Group) -> Path:
    """A reader's control group with its weight, made if it is not there; the cost model in place, or off.

    `io_groups`: the phase's `io_groups`; `reader`: an entry of its `groups`. Raises Refusal, Failure.
    """
    name = f"{target.name}.{reader['name']}"
    folder = cgroups.path_of(name, io_groups["cgroup"])
    if io_groups["cgroup"] == "v2":
        cost = io_groups["cost"]
        iocost.put(target.home, name, target.devices if cost else [], {**cost} if cost else {})
    else:
        journal_of(target.home).note({"kind": "v1_group", "path": str(folder)})
    cgroups.weigh(name, io_groups["cgroup"], reader["weight"])
    return folder


def counted(target: Target, group: Path) -> Counted:
    """What a group has read so far. Raises Failure where the group has vanished."""
    numbers = set(map(kernel.number_of, target.devices))
    read_bytes = ios = cost_us = 0
    try:
        if not (group / "io.stat").exists() and (group / f"{cgroups.v1_prefix(group)}io_serviced").exists():
            sums = []
            for name in ("io_service_bytes", "io_serviced"):
                text = (group / f"{cgroups.v1_prefix(group)}{name}").read_text()
                lines = [line.split() for line in text.splitlines()]
                sums.append(sum(int(words[2]) for words in lines if words[0] in numbers and words[1] == "Read"))
            return Counted(sums[0], sums[1], 0)
        for line in (group / "io.stat").read_text().splitlines():
            number, *pairs = line.split()
            if number in numbers:
                values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
                read_bytes += int(values.get("rbytes", 0))
                ios += int(values.get("rios", 0))
                cost_us += int(values.get("cost.usage", 0))
    except OSError as error:
        raise Failure(f"the control group {group} cannot be read: {error.strerror}; somebody removed it") from error
    return Counted(read_bytes, ios, cost_us)


def left_over(home: Path) -> list[Path]:
    """The readers' groups that are noted."""
    groups = []
    for entry in journal_of(home).entries("group", "v1_group"):
        group = Path(entry["path"])
        if group.name.startswith(f"{cgroups.PREFIX}{home.name}."):
            groups.append(group)
    return groups


def why_no_scheduler(device: str, name: str) -> str | None:
    """Why the kernel cannot give a device this scheduler; None when it can."""
    offered = _scheduler_of(device).read_text().replace("[", "").replace("]", "").split()
    if name in offered:
        return None
    # A module, which the kernel loads when its name is written to the queue.
    probe = ["modprobe", "--dry-run", "--quiet", f"{name}-iosched"]
    if shutil.which("modprobe") and run(probe, ok=(0, 1)).returncode == 0:
        return None
    gone = "; CFQ left Linux with 5.0" if name == "cfq" else ""
    return f"{os.uname().nodename} (Linux {os.uname().release}) offers {device} {', '.join(offered)}, not {name}{gone}"


def put_scheduler(target: Target, name: str) -> None:
    """Set the scheduler of every loop device of the target, and note the former one. Raises Failure."""
    for store, device, _ in target.stores():
        path = _scheduler_of(device)
        disk = loops.known_by(target.model.disk(store))
        entry = {"kind": "scheduler", "device": device, "before": loops.value_of(path), "disk": disk}
        favours = path.parent / OF_BFQ
        if favours.exists():
            entry["low_latency"] = favours.read_text().strip()
        if entry["before"] != name or entry.get("low_latency", "0") != "0":
            journal_of(target.home).note(entry)
            _set_scheduler(path, name)
        if favours.exists():
            loops.set_knob(favours, "0")


def undo_scheduler(entry: Json) -> str:
    if entry["device"] not in loops.devices_of(entry["disk"]):
        return f"{entry['device']} was detached since its scheduler was set: there is nothing to restore"
    path = _scheduler_of(entry["device"])
    _set_scheduler(path, entry["before"])
    if "low_latency" in entry:
        loops.set_knob(path.parent / OF_BFQ, entry["low_latency"])
    return f"{entry['device']} has the scheduler {entry['before']} again"


def _scheduler_of(device: str) -> Path:
    return loops.queue_of(device) / "scheduler"


def _set_scheduler(path: Path, name: str) -> None:
    try:
        loops.set_knob(path, name)
    except Refusal as why:
        raise Failure(str(why)) from why
    if loops.value_of(path) != name:
        raise Failure(f"{path} reads {path.read_text().strip()!r} after {name!r} was written to it")
