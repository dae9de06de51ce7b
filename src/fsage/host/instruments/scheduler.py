"""The I/O scheduler of a target's loop devices: the former one is noted, another set for a cell, the former restored.

Kernel documentation: Documentation/block/switching-sched.rst.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fsage.host.device import loops
from fsage.host.system import journal
from fsage.host.system.shell import run
from fsage.host.targets.target import Target
from fsage.model.errors import Failure, Refusal

PATH = "/sys/block/{}/queue/scheduler"


def unavailable_because(device: str, name: str) -> str | None:
    """Why the kernel cannot give a device this scheduler; None when it can."""
    offered = _offered(_path(device))
    if name in offered or _loadable(name):
        return None
    gone = "; CFQ left Linux with 5.0" if name == "cfq" else ""
    return f"{os.uname().nodename} (Linux {os.uname().release}) offers {device} {', '.join(offered)}, not {name}{gone}"


def _loadable(name: str) -> bool:
    """Whether the scheduler is a module, which the kernel loads when its name is written to the queue."""
    if not shutil.which("modprobe"):
        return False
    return run(["modprobe", "--dry-run", "--quiet", f"{name}-iosched"], ok=(0, 1)).returncode == 0


def put(target: Target, name: str) -> None:
    """Set the scheduler of every loop device of the target, and note the former one. Raises Failure."""
    for store, device, _ in target.stores():
        path = _path(device)
        disk = target.model.disk(store)
        loop = {key: disk[key] for key in ("image", "dev", "ino", "bytes")}
        entry = {"kind": "scheduler", "device": device, "before": _now(path), "disk": loop}
        favours = _favours(path)
        if favours.exists():
            entry["low_latency"] = favours.read_text(encoding="ascii").strip()
        if entry["before"] != name or entry.get("low_latency", "0") != "0":
            journal.note(journal.path_of(target.home), entry)
            _set(path, name)
        if favours.exists():
            loops.set_knob(favours, "0")


def _put_back(entry: journal.Entry) -> str:
    if entry["device"] not in loops.devices_of(entry["disk"]):
        return f"{entry['device']} was detached since its scheduler was set: there is nothing to restore"
    path = _path(entry["device"])
    _set(path, entry["before"])
    if "low_latency" in entry:
        loops.set_knob(_favours(path), entry["low_latency"])
    return f"{entry['device']} has the scheduler {entry['before']} again"


UNDO = {"scheduler": _put_back}


def _path(device: str) -> Path:
    return Path(PATH.format(Path(device).name))


def _favours(path: Path) -> Path:
    """BFQ's switch that favours processes that seem interactive; it exists while BFQ is set."""
    return path.parent / loops.OF_BFQ


def _set(path: Path, name: str) -> None:
    try:
        loops.set_knob(path, name)
    except Refusal as why:
        raise Failure(str(why)) from why
    if _now(path) != name:
        raise Failure(f"{path} reads {path.read_text(encoding='ascii').strip()!r} after {name!r} was written to it")


def _offered(path: Path) -> list[str]:
    return [word.strip("[]") for word in path.read_text(encoding="ascii").split()]


def _now(path: Path) -> str:
    """`none [bfq] kyber` -> bfq."""
    return next(word.strip("[]") for word in path.read_text(encoding="ascii").split() if word.startswith("["))
