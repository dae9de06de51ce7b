"""The device model: the kernel's I/O cost controller (IOCost), for the target's own control group.

Kernel documentation: Documentation/admin-guide/cgroup-v2.rst, "IO Interface Files". The controller must be in
cgroup v2. Where cgroup v1 holds it (`blkio`), it is moved for the time of use if no foreign group uses it.
The group is a child of the root group, whose own I/O is never charged.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

from fsage.api.host import DeviceModel, capabilities, journal_of, kernel, locked, mounting
from fsage.api.model import Failure, Json, Refusal
from fsage.layouts import machine

from .. import model as facts
from . import cgroups
from .cgroups import words, write

# The controller adjusts once a period, which follows from these latencies. With the kernel's 250 ms a sample of one
# second is part of a burst: 700 to 1100 MiB/s were seen under a model of 476 MiB/s. With 5 ms it was 470 to 500.
LATENCY_US = 5000
PUT_BACK_PATIENCE_S = 150.0  # a loop device's idle worker keeps a removed group for up to two minutes
PLACE_HOLDERS = ("net_prio", "net_cls", "perf_event", "hugetlb", "rdma", "misc", "debug")
MS_REMOUNT = 32
MOUNT_FLAGS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "relatime": 1 << 21}


def _make_control_group() -> None:
    """Make a group of cgroup v2 and remove it at once. Its name is not that of a target's group."""
    root = cgroups.root()
    if root is None:
        raise Failure("the root of cgroup v2 is not mounted here, or a container hides it")
    if "io" not in words(root / "cgroup.controllers") and cgroups.v1() is None:
        raise Failure(f"{root}/cgroup.controllers has no controller io, and cgroup v1 has no blkio that could be moved")
    Path(tempfile.mkdtemp(prefix="attempt-fsage-", dir=root)).rmdir()


CONTROL_GROUP = capabilities.Capability(
    "control group",
    "device model iocost, study iocontrol",
    _make_control_group,
    "run it as root; in a container, start that with --privileged --cgroupns=host and /sys/fs/cgroup writable",
)


def unavailable_because(declared: Json) -> str | None:
    """Why this machine cannot put a cost model on a device; None when it can."""
    why = groups_unavailable_because(declared)
    if why:
        return why
    root = cgroups.root()
    if root and "io" in words(root / "cgroup.controllers") and not (root / "io.cost.qos").exists():
        return "this kernel has no IOCost (CONFIG_BLK_CGROUP_IOCOST)"
    return None


def groups_unavailable_because(declared: Json) -> str | None:
    """Why no group of cgroup v2 can get the block I/O controller here; None when one can."""
    why = capabilities.obstacle(CONTROL_GROUP)
    if why:
        return str(why)
    if "io" in words(cgroups.hierarchy("v2") / "cgroup.controllers"):
        return None
    try:
        _plan_move(declared.get("allow_moving", []))
    except Refusal as refusal:
        return str(refusal)
    return None


def put(home: Path, name: str, devices: list[str], model: Json) -> Json:
    """Lay the model over each device where it is not, and return what is read back. No devices: the group alone.

    `Refusal` where this machine cannot; `Failure` when what is read back differs.
    """
    if not _in_place(name, devices, model):
        why = unavailable_because(model)
        if why:
            raise Refusal(f"no device model on {os.uname().nodename}: {why}")
        noted = journal_of(home)
        for entry in noted.entries("cost"):  # of a loop device that the target has no more
            if entry["device"] not in map(kernel.number_of, devices):
                cost_off(entry["device"])
                noted.strike(entry)
        noted.note({"kind": "group", "path": str(cgroups.path_of(name))})
        for device in devices:
            noted.note({"kind": "cost", "device": kernel.number_of(device)})
        with locked(cgroups.SHARED_LOCK):
            root = _provide_io(model.get("allow_moving", []))
            cgroups.path_of(name).mkdir(exist_ok=True)
            for device in devices:
                for file, line in _lines(model).items():
                    write(root / file, f"{kernel.number_of(device)} {line}")
        if not _in_place(name, devices, model):
            raise Failure(f"the device model does not read back: requested {_lines(model)}, read {_read_back(devices)}")
    return {
        **model,
        "group": name and cgroups.PREFIX + name,
        "read_back": _read_back(devices),
        # To the group, where v2 has the memory controller too.
        "charges_buffered_writes": "memory" in words(cgroups.hierarchy("v2") / "cgroup.subtree_control"),
    }


def _in_place(name: str, devices: list[str], model: Json) -> bool:
    root = cgroups.root()
    if root is None or not (root / f"{cgroups.PREFIX}{name}" / "io.stat").exists():
        return False
    if not devices:
        return True
    for read in _read_back(devices).values():
        for file, line in _lines(model).items():
            if not _pairs(line.split()).items() <= read[file].items():
                return False
    return True


def _lines(model: Json) -> dict[str, str]:
    """The line to write to each file for a device. Reads and writes cost the same."""
    rates = " ".join(
        f"{way}bps={model['bytes_per_s']} {way}seqiops={model['sequential_iops']} {way}randiops={model['random_iops']}"
        for way in "rw"
    )
    latency = f"rpct=0.00 rlat={LATENCY_US} wpct=0.00 wlat={LATENCY_US}"
    return {
        "io.cost.model": f"ctrl=user model=linear {rates}",
        "io.cost.qos": f"enable=1 ctrl=user {latency} min=100.00 max=100.00",
    }


def _read_back(devices: list[str]) -> dict[str, dict[str, dict[str, str]]]:
    """Device -> file -> key -> value, read from the kernel."""
    root = cgroups.root()
    found: dict[str, dict[str, dict[str, str]]] = {}
    for device in devices:
        found[device] = {"io.cost.model": {}, "io.cost.qos": {}}
        for file, read in found[device].items():
            with contextlib.suppress(FileNotFoundError):
                for line in ((root or Path()) / file).read_text().splitlines():
                    number, *pairs = line.split()
                    if number == kernel.number_of(device):
                        read.update(_pairs(pairs))
    return found


def _provide_io(allow_moving: list[str]) -> Path:
    """Make the `io` controller available to groups below the root of cgroup v2; that root."""
    root = cgroups.hierarchy("v2")
    if "io" not in words(root / "cgroup.controllers"):
        move = _plan_move(allow_moving)
        cgroups.SHARED.note(move)
        try:
            go = _remount if _below(move["mount"]) else _remount_when_idle
            go(move["mount"], move["after"], move["flags"])
        except Failure as failure:
            cgroups.SHARED.strike(move)
            raise Failure(f"{failure}; removed groups still hold it, or somebody made a new one") from failure
        if "io" not in words(root / "cgroup.controllers"):
            raise Failure(
                f"{move['mount']} gave blkio up ({move['before']} -> {move['after']}), but cgroup v2 has not got io"
            )
    if not (root / "io.cost.qos").exists():
        raise Refusal("no device model: this kernel has no IOCost (CONFIG_BLK_CGROUP_IOCOST)")
    if "io" not in words(root / "cgroup.subtree_control"):
        cgroups.SHARED.note({"kind": "subtree_control", "path": str(root / "cgroup.subtree_control")})
        write(root / "cgroup.subtree_control", "+io")
    return root


def _plan_move(allow_moving: list[str]) -> Json:
    root = cgroups.root()
    return plan_move(
        Path("/proc/cgroups").read_text(),
        machine.mounts(),
        words(root / "cgroup.subtree_control") if root else [],
        allow_moving,
        _below,
    )


def _below(point: str) -> int:
    """The number of groups below a mounted hierarchy. /proc/cgroups would count removed groups too.

    A removed group ends a minute or two later, when an idle loop worker that did I/O for it releases it.
    """
    return sum(len(folders) for _, folders, _ in os.walk(point))


def plan_move(
    cgroups: str,
    mounts: list[machine.Mount],
    used_in_v2: list[str],
    allow_moving: list[str],
    below: Callable[[str], int],
) -> Json:
    """The journal entry for moving blkio out of its cgroup v1 hierarchy. Raises Refusal where it may not or cannot.

    `cgroups` is the text of /proc/cgroups; `below` counts the groups below a mount point. A hierarchy keeps its other
    controllers. Where it has no other it gets an unused one as a place-holder, because the kernel allows no hierarchy
    without a controller.
    """
    table = {}
    for line in cgroups.splitlines()[1:]:
        controller, hierarchy, _, enabled = line.split()
        table[controller] = (int(hierarchy), enabled == "1")
    if "blkio" not in table or not table["blkio"][1]:
        raise Refusal("this kernel has no block I/O controller, or it is switched off")
    controllers = [m for m in mounts if m.type == "cgroup" and m.root == "/" and "blkio" in m.super_options.split(",")]
    if not controllers:
        raise Refusal("the block I/O controller is in a cgroup v1 hierarchy that is not mounted here")
    mount = controllers[0]
    foreign = below(controllers[0].point)
    if foreign and "blkio" not in allow_moving:
        raise Refusal(
            f"cgroup v1 holds blkio at {mount.point}, and {foreign} groups of others use it; "
            "device_model.allow_moving: [blkio] tries to move it nevertheless"
        )
    options = [word for word in mount.super_options.split(",") if word not in ("rw", "ro")]
    stays = [word for word in options if word != "blkio"]
    if not any(word in table for word in stays):
        free = [word for word in PLACE_HOLDERS if word not in used_in_v2 and word in table and table[word] == (0, True)]
        if not free:
            raise Refusal(f"cgroup v1 holds blkio at {mount.point}, and no free controller can take its place")
        stays.append(free[0])
    return {
        "kind": "moved",
        "mount": mount.point,
        "before": ",".join(options),
        "after": ",".join(stays),
        "flags": sum(MOUNT_FLAGS.get(word, 0) for word in mount.mount_options.split(",")),
    }


def _remount(point: str, options: str, flags: int) -> None:
    """Give a cgroup v1 hierarchy exactly these controllers. mount(8) would add the old ones."""
    try:
        mounting.mount_call("cgroup", point, "cgroup", MS_REMOUNT | flags, options)
    except OSError as error:
        raise Failure(f"remounting {point} with {options}: {error.strerror}") from error


def _remount_when_idle(point: str, options: str, flags: int) -> None:
    """Remount (`_remount`) once removed groups have released the hierarchy. Raises Failure after a time limit."""
    for last in kernel.attempts(PUT_BACK_PATIENCE_S, 0.1):
        try:
            return _remount(point, options, flags)
        except Failure:
            if last:
                raise


def _undo_move(entry: Json) -> str:
    try:
        _remount_when_idle(entry["mount"], entry["before"], entry["flags"])
    except Failure as failure:
        raise Failure(
            f"{failure}; it was {entry['before']} before fsage. Somebody else's group uses the io controller of "
            "cgroup v2 by now; end it and release the target again"
        ) from failure
    now = machine.mounted_at(entry["mount"])
    if now is None or not set(entry["before"].split(",")) <= set(now.super_options.split(",")):
        raise Failure(f"{entry['mount']} has {now and now.super_options} after remounting it with {entry['before']}")
    return f"{entry['mount']} has {entry['before']} again"


def _undo_subtree_control(entry: Json) -> str:
    write(Path(entry["path"]), "-io")
    if "io" in words(Path(entry["path"])):
        raise Failure(f"{entry['path']} still has io")
    return f"{entry['path']} has no io again"


def cost_off(number: str) -> str:
    """Remove the model from a device (`major:minor`); a sentence on that. Raises Failure."""
    root = cgroups.root()
    if root is None:
        raise Failure(f"the cost model of device {number} cannot be reached: no cgroup v2 root here")
    for file, line in (("io.cost.qos", "enable=0 ctrl=auto"), ("io.cost.model", "ctrl=auto")):
        write(root / file, f"{number} {line}", missing_ok=True)
    return f"device {number} has no cost model"


def _pairs(words: list[str]) -> dict[str, str]:
    """`a=1 b=2` as a dictionary."""
    pairs = {}
    for word in words:
        key, _, value = word.partition("=")
        pairs[key] = value
    return pairs


class Iocost(DeviceModel, facts.Iocost):
    """The cost of each request on the loop device, charged to the target's control group."""

    needs = CONTROL_GROUP
    changes: ClassVar = {
        "group": lambda entry: cgroups.remove(entry["path"]),
        "cost": lambda entry: cost_off(entry["device"]),
    }

    unavailable_because = staticmethod(unavailable_because)

    @staticmethod
    def shared_left_over() -> bool:
        return cgroups.SHARED.path.exists() and not cgroups.names()

    @staticmethod
    def undo_shared() -> list[str]:
        ways = {"moved": _undo_move, "subtree_control": _undo_subtree_control}
        with locked(cgroups.SHARED_LOCK):
            return cgroups.SHARED.undo({} if cgroups.names() else ways)

    def put(self, devices: list[str]) -> Json:
        return put(self.home, self.name, devices, self.parameters)

    def charged(self) -> AbstractContextManager[None]:
        return cgroups.inside(cgroups.path_of(self.name))


MODEL = Iocost
